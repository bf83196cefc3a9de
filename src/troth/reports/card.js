"use strict";
/* Show the trust card of a client. The page's data are inserted as text, never as HTML. */
(() => {
  const { find, make, command } = troth;
  const SVG = "http://www.w3.org/2000/svg";
  const path = (kind, d) => {
    const node = document.createElementNS(SVG, "path");
    node.setAttribute("class", kind);
    node.setAttribute("d", d);
    return node;
  };

  const sentence = (rules, said) => {
    const line = make("p", { "data-rule": rules[said[0]][0] });
    for (const piece of rules[said[0]][1].split(/(\{\d+\})/)) {
      const at = /^\{(\d+)\}$/.exec(piece);
      const word = at ? said[1 + Number(at[1])] : piece;
      if (!at || !/^(import )?troth[ .;]/.test(word)) line.append(word);
      else line.append(...command(word).flatMap((node, i) => (i ? [" ", node] : [node])));
    }
    return line;
  };
  const info = (about, lines) => (lines.length ? make("details", { class: "info" }, make("summary", {}, make("b", {}, "i"), " ", make("span", {}, about)), ...lines) : null);

  /* A value on its scale: benign clients behind it, its interval, and references. */
  const drawn = (row, axis) => {
    const [value, low, high, shared, local, limit] = row.slice(5);
    if (!axis || typeof value !== "number") return null;
    const [from, to, first, last, counts] = axis;
    const x = (v) => Math.max(0, Math.min(1000, Math.round((1000 * (v - from)) / (to - from))));
    const most = Math.max(...counts);
    const wide = 1000 / counts.length;
    const bars = counts.map((n, i) => (n ? `M${i * wide} 100v${-Math.max(6, (70 * n) / most)}h${wide}V100z` : "")).join("");
    const svg = document.createElementNS(SVG, "svg");
    for (const [key, text] of Object.entries({ viewBox: "0 0 1000 100", preserveAspectRatio: "none", "aria-hidden": "true" })) svg.setAttribute(key, text);
    svg.append(path("spread", bars), path("base", "M0 100H1000"));
    const place = make("div", { class: "plot" }, svg, make("i", { class: "end" }, first), make("i", { class: "end last" }, last));
    const line = (v, kind, letter) => {
      if (typeof v !== "number") return;
      svg.append(path(kind, `M${x(v)} 22V100`));
      place.append(make("i", { class: `letter ${kind}`, style: `left:${x(v) / 10}%` }, letter));
    };
    line(shared, "shared", "S");
    line(local, "alone", "L");
    line(limit, "limit", "limit");
    if (typeof low === "number") svg.append(path("bar", `M${x(low)} 62H${x(high)}`));
    svg.append(path("dots back", `M${x(value)} 62h0`), path("dots value", `M${x(value)} 62h0`));
    return place;
  };

  /* The card's sentences about a subject: those with a command, and the others. */
  const parts = (data, list, about) => {
    const mine = list.filter((said) => about && data.rules[said[0]][0].startsWith(`${about}.`)).map((said) => sentence(data.rules, said));
    return [mine.filter((line) => find(".command", line)), mine.filter((line) => !find(".command", line))];
  };

  const quality = (data, row, axis, list) => {
    const [head, text, says, about, between] = row;
    const [asks, more] = parts(data, list, about);
    const ask = text === "–" && asks.length ? make("details", { class: "how" }, make("summary", {}, "How to get this"), ...asks) : null;
    return make("tr", { "data-quality": head },
      make("th", { scope: "row" }, head),
      make("td", { class: "number" }, text, between ? make("small", {}, between) : null),
      make("td", { class: "scale" }, drawn(row, axis)),
      make("td", { class: "says" }, sentence(data.rules, says), " ", info(`more about ${head}`, ask ? more : [...more, ...asks]), ask));
  };

  /* Fill `panel` with the card of row `r` of deck `d`, in the i-th run or in the suggested one. */
  troth.card = (panel, data, d, r, i = data.decks[d].first[r]) => {
    const { runs, choices, cards, rows, axes, owners, table, answer, data: set } = data.decks[d];
    const rule = (said) => data.rules[said[0]][0];
    const [use, ...more] = choices[r];
    const lines = more.filter((said) => rule(said) !== "choice.command").map((said) => sentence(data.rules, said));
    const predict = more.filter((said) => rule(said) === "choice.command").map((said) => sentence(data.rules, said));
    const option = (name, k) => make("option", { value: k, selected: k === i }, name);
    const select = make("select", { onchange: (event) => troth.card(panel, data, d, r, Number(event.target.value)) }, ...runs.map(option));
    const list = cards[i][r];
    const sure = rule(use) === "choice.average" ? answer.map((said) => sentence(data.rules, said)) : [];
    const origin = list.filter((said) => rule(said).startsWith("provenance.")).map((said) => sentence(data.rules, said));
    panel.replaceChildren(
      make(panel.id ? "h3" : "h2", {}, `Client ${table.columns[0][r]}${owners.length ? ` (${owners[r]})` : ""}`),
      make("div", { class: "use" }, sentence(data.rules, use), " ", info("why this model", lines), ...sure, ...predict),
      make("p", { class: "soft small" }, make("label", { class: "which" }, "Qualities of the model of ", select), make("span", { class: "printed" }, `Qualities of the model of “${runs[i]}”. `), ` Data: ${set}. Dot: this client; bar: 95 % interval; gray: all benign clients; S: shared model; L: training alone.`),
      make("table", { class: "qualities" }, make("tbody", {}, ...rows[i][r].map((row) => quality(data, row, axes[i][row[0]], list)))),
      make("div", { class: "printed hows" }, ...rows[i][r].filter((row) => row[1] === "–").flatMap((row) => parts(data, list, row[3])[0])),
      make("div", { class: "origin small soft" }, ...origin),
    );
  };

  const plain = find("#plain");
  if (!plain) return;
  troth.start();
  const data = JSON.parse(plain.textContent);
  for (const panel of document.querySelectorAll("article[data-deck]")) troth.card(panel, data, Number(panel.dataset.deck), 0);
})();
