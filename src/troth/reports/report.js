"use strict";
/* Show trust cards and the table of clients. The page's data are inserted as text, never
   as HTML. */
(() => {
  const { find, make, command, table } = troth;
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

  troth.start();
  unpacked().then((data) => {
    if (data.decks.length) everyone(data, cards(data));
    document.documentElement.dataset.ready = "yes";
  }).catch((error) => {
    const card = find("#card");
    if (card) card.textContent = `The cards could not be opened (${error.message}). They are also in the .cards.json file of this page.`;
    document.documentElement.dataset.ready = "no";
  });
})();
