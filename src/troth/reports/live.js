"use strict";
/* Request the progress of runs from the server every second. All content is inserted as
   text, never as HTML. */
(() => {
  const PAUSE = 1000;
  const { find, command } = troth;
  const SVG = "http://www.w3.org/2000/svg";
  const drawn = (tag, props, text = "") => {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
    node.textContent = text;
    return node;
  };
  const every = (work) => {
    const again = async () => {
      try {
        await work();
      } catch (error) {
        const place = find("#states") || find("#news");
        place.textContent = "The server does not answer. To start it again: troth ui";
      }
      setTimeout(again, PAUSE);
    };
    again();
  };
  const asked = async (address) => {
    const answer = await fetch(address, { cache: "no-store" });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };

  /* Draw one picture for all runs: personal models solid, shared models dashed. */
  const picture = (runs) => {
    const [wide, high, left, under] = [640, 300, 44, 34];
    const known = runs.flatMap((run) => run.points.flatMap((p) => p.slice(1))).filter((v) => v !== null);
    const most = runs.some((run) => run.metric === "error") ? Math.max(1e-9, ...known) : 1;
    const last = Math.max(1, ...runs.map((run) => run.total));
    const x = (round) => left + (round / last) * (wide - left - 130);
    const y = (value) => high - under - (value / most) * (high - under - 14);
    const svg = drawn("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, role: "img", "aria-label": "Means over rounds; the numbers are above" });
    const line = { stroke: "var(--line)", "stroke-width": 1 };
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      svg.append(drawn("line", { ...line, x1: left, x2: wide - 130, y1: y(part * most), y2: y(part * most) }));
      svg.append(drawn("text", { x: left - 6, y: y(part * most) + 4, "text-anchor": "end", "font-size": 11, fill: "var(--ink)" }, String(+(part * most).toPrecision(3))));
    }
    for (const round of [0, last]) svg.append(drawn("text", { x: x(round), y: high - 16, "text-anchor": "middle", "font-size": 11, fill: "var(--ink)" }, `${round}`));
    svg.append(drawn("text", { x: x(last / 2), y: high - 4, "text-anchor": "middle", "font-size": 11, fill: "var(--soft)" }, "round"));
    runs.forEach((run, i) => {
      const colour = run.place < 8 ? `var(--s${run.place})` : "var(--soft)";
      for (const [at, dash] of [[2, "5 4"], [1, ""]]) {
        const points = run.points.filter((p) => p[at] !== null);
        if (!points.length) continue;
        const path = points.map((p) => `${x(p[0]).toFixed(1)},${y(p[at]).toFixed(1)}`).join(" ");
        svg.append(drawn("polyline", { points: path, fill: "none", stroke: colour, "stroke-width": at === 1 ? 2.2 : 1.4, "stroke-dasharray": dash, "data-run": run.id, "data-count": points.length }));
        const end = points[points.length - 1];
        svg.append(drawn("circle", { cx: x(end[0]), cy: y(end[at]), r: 2.5, fill: colour }));
      }
      svg.append(drawn("text", { x: wide - 122, y: 20 + 16 * i, "font-size": 11, fill: colour }, i < 16 ? run.label.slice(0, 22) : ""));
    });
    return svg;
  };

  const growing = (ids) => {
    const address = `/api/live?${new URLSearchParams(ids.map((id) => ["run", id]))}`;
    let before = "";
    every(async () => {
      const runs = await asked(address);
      const done = runs.filter((run) => run.state === "finished").length;
      const now = JSON.stringify(runs);
      if (now === before) return;
      const known = before;
      before = now;
      find("#states").replaceChildren(...runs.map((run) => {
        const line = document.createElement("p");
        line.dataset.state = run.state;
        line.textContent = run.words;
        if (run.command) line.append(" ", ...command(run.command).flatMap((node) => [node, " "]));
        return line;
      }));
      find("#growing").replaceChildren(picture(runs));
      /* Before the first answer, the page assumes that one run is not finished: all runs
         may have ended after the page was made. */
      const was = known ? JSON.parse(known).filter((run) => run.state === "finished").length : runs.length - 1;
      if (done > was) location.reload();
    });
  };

  const list = () => {
    const rows = [...document.querySelectorAll("tr[data-run]")];
    const named = new Map(rows.map((row) => [row.dataset.run, row]));
    const box = (row) => find("input", row);
    const count = () => {
      const chosen = rows.filter((row) => box(row).checked);
      find("#chosen").textContent = `selected: ${chosen.length}`;
      find("#show").disabled = chosen.length === 0;
      return chosen;
    };
    const set = (some, on) => { for (const row of some) box(row).checked = on; count(); };
    for (const row of rows) box(row).addEventListener("change", count);
    find("#all").addEventListener("click", () => set(rows.filter((row) => row.isConnected), true));
    find("#none").addEventListener("click", () => set(rows, false));
    find("#show").addEventListener("click", () => {
      location.assign(`/report?${new URLSearchParams(count().map((row) => ["run", row.dataset.run]))}`);
    });
    count();
    every(async () => {
      const runs = await asked("/api/runs");
      let fresh = 0;
      for (const run of runs) {
        const row = named.get(run.id);
        if (!row) { fresh += 1; continue; }
        for (const cell of row.cells) {
          const text = run[cell.dataset.field];
          if (cell.dataset.field !== "label" && cell.textContent !== text) cell.textContent = text;
        }
      }
      const gone = rows.length - (runs.length - fresh);
      const news = fresh || gone ? `New runs: ${fresh}. Removed runs: ${gone}. Reload the page to update the list.` : "";
      if (find("#news").textContent !== news) find("#news").textContent = news;
    });
  };

  const asks = find("#asks");
  if (asks) growing(JSON.parse(asks.textContent));
  else {
    list();
    troth.start(); /* after list(), which needs all rows in the page */
  }
})();
