"use strict";
/* Find cards, show the table of clients, and what a pointer shows in pictures. The page's
   data are inserted as text, never as HTML. */
(() => {
  const { find, make, table } = troth;
  const cards = (data) => {
    const [ask, which, deck, panel, status] = ["#ask", "#which", "#deck", "#card", "#asked"].map((id) => find(id));
    let [now, row] = [0, 0];
    const client = (d, r) => data.decks[d].table.columns[0][r];
    const worlds = [...document.querySelectorAll("[data-deck]")];
    const show = (d, r, focus) => {
      [now, row] = [d, r];
      for (const world of worlds) world.hidden = Number(world.dataset.deck) !== d;
      troth.card(panel, data, d, r);
      which.value = client(d, r);
      if (deck) deck.value = String(d);
      status.textContent = "";
      if (focus) {
        history.replaceState(null, "", `#client=${client(d, r)}${deck ? `&deck=${d}` : ""}`);
        panel.focus({ preventScroll: true });
        find("#client").scrollIntoView();
      }
    };
    const look = (d, id, focus) => {
      const ids = data.decks[d].table.columns[0];
      const asked = /^(?:client)?\s*0*(\d+)$/i.exec(String(id).trim());
      const r = asked ? ids.indexOf(asked[1]) : -1;
      if (r >= 0) return show(d, r, focus);
      panel.replaceChildren(); /* another client's card must not stay */
      if (focus) history.replaceState(null, "", "#client");
      status.textContent = `There is no client ${id}. Clients are ${ids[0]} to ${ids[ids.length - 1]}.`;
      return undefined;
    };
    const step = (by) => {
      const n = data.decks[now].choices.length;
      show(now, (row + by + n) % n, false);
    };
    ask.addEventListener("submit", (event) => {
      event.preventDefault();
      look(deck ? Number(deck.value) : 0, which.value, true);
    });
    find("#before").addEventListener("click", () => step(-1));
    find("#after").addEventListener("click", () => step(1));
    if (deck) deck.addEventListener("change", () => {
      const d = Number(deck.value);
      if (which.value && data.decks[d].table.columns[0].includes(which.value)) look(d, which.value, false);
      else show(d, 0, false);
    });
    const open = () => {
      const asked = new URLSearchParams(location.hash.slice(1));
      if (asked.get("client")) look(Math.min(Number(asked.get("deck") || 0), data.decks.length - 1), asked.get("client"), true);
    };
    window.addEventListener("hashchange", open);
    const benign = data.decks[0].table.columns[1].indexOf("benign");
    show(0, Math.max(0, benign), false);
    open();
    return show;
  };

  const everyone = (data, show) => {
    for (const place of document.querySelectorAll(".clients")) {
      const d = Number(place.dataset.deck);
      const { heads, columns } = data.decks[d].table;
      const head = make("tr", {}, ...heads.map((h) => make("th", { scope: "col", class: h.numeric ? "n" : "" }, h.name)));
      const title = place.dataset.title;
      place.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
        make("table", {}, make("caption", {}, title), make("thead", {}, head), make("tbody"))));
      const draw = (r) => make("tr", {}, ...columns.map((column, c) => {
        const text = c ? column[r] : make("button", { type: "button", onclick: () => show(d, r, true), "aria-label": `Card of client ${column[r]}` }, column[r]);
        return make("td", { class: heads[c].numeric ? "n" : "" }, text);
      }));
      table(place, heads, columns[0].length, (r, c) => columns[c][r], draw);
    }
  };

  /* What a pointer or the arrow keys show. Positions are read from the pictures. */
  const SVG = "http://www.w3.org/2000/svg";
  const overlay = (plot, kind) => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", kind);
    find("svg", plot).append(path);
    return path;
  };
  const readout = (plot) => find(".readout", plot.closest("figure"));
  const place = (plot, event) => {
    const box = plot.getBoundingClientRect();
    return { box, x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  };

  const story = (data, plot, show) => {
    const d = Number(plot.closest(".world").dataset.deck);
    const { heads, columns } = data.decks[d].table;
    const [ids, roles] = columns;
    const [line, ring] = [overlay(plot, "over"), overlay(plot, "ring")];
    let [dots, at] = [null, -1];
    const read = () => {
      const found = new Map(); /* client's row → [column, x, y] of its dots */
      for (const path of plot.querySelectorAll("path[data-role]")) {
        const c = Number(path.dataset.column);
        const mine = (r) => (roles[r] === "malicious") === (path.dataset.role === "malicious") && columns[c][r] !== "–";
        const rows = ids.map((id, r) => r).filter(mine);
        for (const [i, spot] of [...path.getAttribute("d").matchAll(/M(\S+) ([^h]+)h0/g)].entries()) {
          const one = [c, Number(spot[1]), Number(spot[2])];
          if (found.has(rows[i])) found.get(rows[i]).push(one);
          else found.set(rows[i], [one]);
        }
      }
      return found;
    };
    const mark = (r) => {
      at = r;
      const mine = r < 0 ? [] : [...dots.get(r)].sort((a, b) => a[2] - b[2]);
      line.setAttribute("d", mine.map(([, x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join(""));
      ring.setAttribute("d", mine.map(([, x, y]) => `M${x} ${y}h0`).join(""));
      const words = mine.map(([c]) => `${heads[c].name.replace(/^\w+, /, "")} ${columns[c][r]}`).join("; ");
      const text = r < 0 ? "" : `Client ${ids[r]} (${roles[r]}): ${words}`;
      readout(plot).textContent = text;
      plot.setAttribute("aria-valuetext", text || "no client");
      plot.setAttribute("aria-valuenow", String(Math.max(0, r)));
    };
    const nearest = (event) => {
      const { box, x, y } = place(plot, event);
      let [best, far] = [-1, 24 * 24];
      for (const [r, spots] of dots) {
        for (const [, a, b] of spots) {
          const off = ((a / 1000 - x) * box.width) ** 2 + ((b / 1000 - y) * box.height) ** 2;
          if (off < far) [best, far] = [r, off];
        }
      }
      return best;
    };
    for (const [key, value] of Object.entries({ role: "slider", tabindex: "0", "aria-label": "Client", "aria-valuemin": "0", "aria-valuemax": String(ids.length - 1), "aria-valuenow": "0", "aria-valuetext": "no client" })) plot.setAttribute(key, value);
    const ready = () => { dots = dots || read(); };
    plot.addEventListener("pointermove", (event) => { ready(); mark(nearest(event)); });
    plot.addEventListener("pointerleave", () => { if (dots) mark(-1); });
    plot.addEventListener("click", (event) => {
      ready();
      const r = nearest(event);
      if (r >= 0) show(d, r, true);
    });
    plot.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      ready();
      if (by) {
        event.preventDefault();
        let r = at;
        do r = (r + by + ids.length) % ids.length; while (!dots.has(r));
        mark(r);
      } else if (event.key === "Enter" && at >= 0) show(d, at, true);
    });
  };

  const lines = (plot) => {
    const { low, high, unit } = plot.dataset;
    const line = overlay(plot, "over");
    const every = [...plot.querySelectorAll("path[data-values]")].map((path) => [path.dataset.name, JSON.parse(path.dataset.values)]);
    plot.addEventListener("pointermove", (event) => {
      const x = Number(low) + place(plot, event).x * (high - low);
      const all = every.flatMap(([, values]) => values.map(([a]) => a));
      const at = all.reduce((best, a) => (Math.abs(a - x) < Math.abs(best - x) ? a : best), Infinity);
      const said = every.flatMap(([name, values]) => values.filter(([a]) => a === at).map(([, text]) => `${name} ${text}`));
      line.setAttribute("d", `M${(1000 * (at - low)) / (high - low)} 0V1000`);
      readout(plot).textContent = `${unit} ${at}: ${said.join("; ")}`;
    });
    plot.addEventListener("pointerleave", () => { line.setAttribute("d", ""); readout(plot).textContent = ""; });
  };

  const heat = (plot) => {
    const [rows, counts] = [JSON.parse(plot.dataset.rows), JSON.parse(plot.dataset.counts)];
    const { high, bins } = plot.dataset;
    plot.addEventListener("pointermove", (event) => {
      const { x, y } = place(plot, event);
      const [i, j] = [Math.floor(y * rows.length), Math.floor(x * bins)];
      if (!counts[i] || counts[i][j] === undefined) return;
      const [from, to] = [Math.floor((j * high) / bins) + 1, Math.floor(((j + 1) * high) / bins)];
      readout(plot).textContent = `Client ${rows[i]}, round ${from}${to > from ? ` to ${to}` : ""}: ${counts[i][j]} times`;
    });
    plot.addEventListener("pointerleave", () => { readout(plot).textContent = ""; });
  };

  const changes = (plot) => {
    const every = JSON.parse(plot.dataset.changes);
    plot.addEventListener("pointermove", (event) => {
      const one = every[Math.floor(place(plot, event).x * every.length)];
      if (one) readout(plot).textContent = `Client ${one[0]}: ${one[1]}, 95 % interval ${one[2]} to ${one[3]}`;
    });
    plot.addEventListener("pointerleave", () => { readout(plot).textContent = ""; });
  };

  const unpacked = async () => {
    const bytes = Uint8Array.from(atob(find("#data").textContent), (c) => c.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(plain).text());
  };

  troth.start();
  unpacked().then((data) => {
    if (data.decks.length) {
      const show = cards(data);
      everyone(data, show);
      for (const plot of document.querySelectorAll(".story .plot")) story(data, plot, show);
    }
    for (const plot of document.querySelectorAll(".lines .plot")) lines(plot);
    for (const plot of document.querySelectorAll(".heat .plot")) heat(plot);
    for (const plot of document.querySelectorAll(".audit .plot")) changes(plot);
    document.documentElement.dataset.ready = "yes";
  }).catch((error) => {
    const card = find("#card");
    if (card) card.textContent = `The cards could not be opened (${error.message}). They are also in the .cards.json file of this page.`;
    document.documentElement.dataset.ready = "no";
  });
})();
