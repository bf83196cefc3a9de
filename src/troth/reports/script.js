"use strict";
/* Sort, filter and paginate tables, and show cards. The page's data are inserted as text,
   never as HTML. */
(() => {
  const ROWS = 50;
  const PRINTED = 2000; /* rows of a table on paper, at most */
  const find = (what, at = document) => at.querySelector(what);
  const make = (tag, props = {}, ...inside) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(props)) {
      if (key === "class") node.className = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== false) node.setAttribute(key, value);
    }
    node.append(...inside.filter((one) => one !== null));
    return node;
  };
  const value = (text) => parseFloat(text.replace("−", "-").replace(",", ""));
  const order = (a, b, numeric) => {
    if (!numeric) return a.localeCompare(b, "en", { numeric: true });
    const [x, y] = [value(a), value(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return x - y;
  };
  /* Make a filter: "7" matches this number, "<0.8" and ">=3" compare, other text is
     searched for. */
  const test = (query) => {
    const asked = query.trim().toLowerCase();
    const compare = /^(<=|>=|<|>)\s*(-?[\d.]+)$/.exec(asked);
    if (compare) {
      const limit = parseFloat(compare[2]);
      const how = { "<": (v) => v < limit, ">": (v) => v > limit, "<=": (v) => v <= limit, ">=": (v) => v >= limit };
      return (text, numeric) => numeric && how[compare[1]](value(text));
    }
    if (/^-?[\d.]+$/.test(asked)) {
      return (text, numeric) => (numeric ? value(text) === parseFloat(asked) : text.toLowerCase().includes(asked));
    }
    return (text) => text.toLowerCase().includes(asked);
  };

  /* A command wraps between its words, never inside a word, and can be copied. */
  const command = (text) => {
    const words = text.split(" ").flatMap((word, i) => [i ? " " : "", make("span", {}, word)]);
    const code = make("code", { class: "command" }, ...words);
    return [code, copier()];
  };
  const copier = () => make("button", { type: "button", class: "copy", "aria-label": "Copy the command" }, "Copy");
  const old = (text) => {
    const field = make("textarea", { "aria-hidden": "true", class: "apart" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  };
  const copied = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (error) {
      return old(text);
    }
  };
  const copying = () => {
    const news = make("p", { role: "status", class: "apart" });
    find("main").append(news);
    for (const code of document.querySelectorAll("code.command")) code.after(" ", copier());
    document.addEventListener("click", async (event) => {
      const button = event.target.closest("button.copy");
      if (!button) return;
      const code = button.previousElementSibling;
      const done = await copied(code.textContent);
      button.focus();
      if (!done) getSelection().selectAllChildren(code);
      news.textContent = done ? "Command copied." : "Command selected; press Ctrl+C.";
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { button.textContent = "Copy"; news.textContent = ""; }, 2500);
    });
  };

  /* On paper all rows are shown and nothing is folded. Each function in `onPaper` prepares
     for printing and returns a function that undoes this. */
  const onPaper = [];
  const paper = (() => {
    let back = null;
    return (now) => {
      if (now && !back) {
        const folded = [...document.querySelectorAll("details:not([open])")];
        for (const one of folded) one.open = true;
        const others = onPaper.map((whole) => whole());
        back = () => { for (const one of folded) one.open = false; for (const one of others) one(); };
      } else if (!now && back) {
        back();
        back = null;
      }
    };
  })();
  window.addEventListener("beforeprint", () => paper(true));
  window.addEventListener("afterprint", () => paper(false));
  window.matchMedia("print").addEventListener("change", (event) => paper(event.matches));

  /* heads: [{name, numeric}] of the columns; count: number of rows; text(row, column): text
     of a cell; draw(row): the <tr> of a row. */
  const table = (place, heads, count, text, draw) => {
    let [sorted, down, page, shown] = [-1, false, 0, [...Array(count).keys()]];
    const body = find("tbody", place);
    const cells = [...place.querySelectorAll("thead th")];
    const said = make("span", { role: "status" });
    const left = make("p", { class: "printed" });
    const input = make("input", { type: "search", size: "18", placeholder: "text, 7 or <0.8" });
    const column = make("select", {}, make("option", { value: "-1" }, "any column"), ...heads.map((h, i) => make("option", { value: i }, h.name)));
    const back = make("button", { type: "button" }, "Previous rows");
    const on = make("button", { type: "button" }, "Next rows");
    const render = () => {
      const last = Math.max(0, Math.ceil(shown.length / ROWS) - 1);
      page = Math.min(page, last);
      const rows = shown.slice(page * ROWS, (page + 1) * ROWS);
      body.replaceChildren(...rows.map(draw));
      const first = rows.length ? page * ROWS + 1 : 0;
      said.textContent = `rows ${first} to ${page * ROWS + rows.length} of ${shown.length}`;
      back.disabled = page === 0;
      on.disabled = page === last;
      back.hidden = on.hidden = last === 0;
    };
    const whole = () => {
      body.replaceChildren(...shown.slice(0, PRINTED).map(draw));
      const [there, fit] = [Math.min(shown.length, PRINTED), shown.length];
      const why = [];
      if (fit < count) why.push(`${fit} rows match the filter “${input.value.trim()}”`);
      if (there < fit) why.push(`at most ${PRINTED} are printed, in this order; filter the table or read the file for others`);
      left.textContent = why.length ? `Printed: ${there} of ${count} rows; ${why.join("; ")}.` : "";
      const buttons = cells.map((cell) => cell.firstChild);
      cells.forEach((cell, i) => cell.replaceChildren(heads[i].name)); /* no button on every printed sheet */
      return () => {
        cells.forEach((cell, i) => cell.replaceChildren(buttons[i]));
        left.textContent = "";
        render();
      };
    };
    const choose = () => {
      const fits = test(input.value);
      const only = Number(column.value);
      const wanted = only >= 0 ? [only] : heads.map((h, i) => i);
      shown = [...Array(count).keys()];
      if (input.value.trim()) shown = shown.filter((r) => wanted.some((c) => fits(text(r, c), heads[c].numeric)));
      if (sorted >= 0) {
        const sign = down ? -1 : 1;
        shown.sort((a, b) => sign * order(text(a, sorted), text(b, sorted), heads[sorted].numeric) || a - b);
      }
      page = 0;
      render();
    };
    cells.forEach((cell, i) => {
      const press = () => {
        down = sorted === i ? !down : false;
        sorted = i;
        cells.forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        choose();
      };
      cell.replaceChildren(make("button", { type: "button", onclick: press }, heads[i].name));
    });
    input.addEventListener("input", choose);
    column.addEventListener("change", choose);
    back.addEventListener("click", () => { page -= 1; render(); });
    on.addEventListener("click", () => { page += 1; render(); });
    const controls = make("div", { class: "controls" },
      make("label", {}, "Filter ", input), make("label", {}, "in ", column), back, on, said);
    if (count > 3) place.prepend(controls);
    place.append(left);
    onPaper.push(whole);
    render();
  };

  const standing = (place) => {
    const heads = [...place.querySelectorAll("thead th")].map((th) => ({ name: th.textContent, numeric: th.className === "n" }));
    const rows = [...place.querySelectorAll("tbody tr")];
    table(place, heads, rows.length, (r, c) => rows[r].cells[c].textContent, (r) => rows[r]);
  };

  const sentence = (rules, said) => {
    const line = make("p", { "data-rule": rules[said[0]][0] });
    for (const piece of rules[said[0]][1].split(/(\{\d+\})/)) {
      const at = /^\{(\d+)\}$/.exec(piece);
      const word = at ? said[1 + Number(at[1])] : piece;
      if (!at || !/^troth[ .]/.test(word)) line.append(word);
      else line.append(...command(word).flatMap((node, i) => (i ? [" ", node] : [node])));
    }
    return line;
  };

  const grouped = (data, list, level) => {
    const parts = [];
    let before = "";
    for (const said of list) {
      const about = data.rules[said[0]][0].split(".")[0];
      if (about !== before) parts.push(make(level, {}, data.about[about]));
      parts.push(sentence(data.rules, said));
      before = about;
    }
    return parts;
  };

  const cards = (data) => {
    const [ask, which, deck, panel, status] = ["#ask", "#which", "#deck", "#card", "#asked"].map((id) => find(id));
    let [now, row] = [0, 0];
    const client = (d, r) => data.decks[d].table.columns[0][r];
    const models = (d, r) => {
      const { heads, columns } = data.decks[d].table;
      const some = heads.map((h, i) => i).filter((i) => i > 2 && heads[i].numeric && columns[i][r] !== "–");
      const line = (i) => make("tr", {}, make("th", { scope: "row" }, heads[i].name), make("td", { class: "n" }, columns[i][r]));
      return make("table", {}, make("caption", {}, "Row of this client in the table"), make("tbody", {}, ...some.map(line)));
    };
    const show = (d, r, focus) => {
      [now, row] = [d, r];
      const { choices, cards: every, runs, first, owners } = data.decks[d];
      const others = runs.map((name, i) => i).filter((i) => i !== first[r]);
      const part = (i) => [make("h3", {}, `Card in run “${runs[i]}”`), ...grouped(data, every[i][r], "h4")];
      panel.replaceChildren(
        make("h3", {}, `Client ${client(d, r)}${owners.length ? ` (${owners[r]})` : ""}`),
        make("div", { class: "use" }, ...choices[r].map((said) => sentence(data.rules, said))),
        ...part(first[r]),
        ...others.map((i) => make("details", {}, make("summary", {}, `Card in run “${runs[i]}”`), ...grouped(data, every[i][r], "h4"))),
        make("details", {}, make("summary", {}, "All numbers"), models(d, r)),
      );
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
    if (deck) deck.addEventListener("change", () => look(Number(deck.value), which.value, false));
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

  const unpacked = async () => {
    const bytes = Uint8Array.from(atob(find("#data").textContent), (c) => c.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(plain).text());
  };

  copying();
  for (const place of document.querySelectorAll(".table:not(.clients)")) standing(place);
  if (!find("#data")) {
    document.documentElement.dataset.ready = "yes";
    return;
  }
  unpacked().then((data) => {
    if (data.decks.length) everyone(data, cards(data));
    document.documentElement.dataset.ready = "yes";
  }).catch((error) => {
    const card = find("#card");
    if (card) card.textContent = `The cards could not be opened (${error.message}). They are also in the .cards.json file of this page.`;
    document.documentElement.dataset.ready = "no";
  });
})();
