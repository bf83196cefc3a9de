"use strict";
/* Pictures of runs that change while the page is open: troth.live. All content is inserted
   as text, never as HTML. On the page of a report, show the progress of its runs. */
troth.live = (() => {
  const PAUSE = 1000;
  const NAMED = 24; /* names of a legend, at most */
  const DASHES = ["none", "7 4", "7 3 1 3", "2 3", "9 3 1 3 1 3", "1 2", "12 4", "4 2 1 2"];
  const { find, make, command } = troth;
  const SVG = "http://www.w3.org/2000/svg";
  const mark = (tag, props) => {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
    return node;
  };
  const look = (i) => ({
    stroke: i < 64 ? `var(--s${i % 8})` : "var(--soft)",
    "stroke-dasharray": DASHES[(i + Math.floor(i / 8)) % 8],
  });
  const digits = (value) => String(+value.toPrecision(3)).replace("-", "−");

  /* Repeat some work every second while the page is visible. */
  const every = (work, news) => {
    const again = async () => {
      try {
        if (!document.hidden) await work();
      } catch (error) {
        find(news).textContent = error.message;
      }
      setTimeout(again, PAUSE);
    };
    return again();
  };
  const asked = async (address, ids, known = "") => {
    const query = new URLSearchParams([["known", known], ...ids.map((id) => ["run", id])]);
    const answer = await fetch(`${address}?${query}`, { cache: "no-store" }).catch(() => {
      throw new Error("The server does not answer. To start it again: troth ui");
    });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };

  /* A range with round ends that contains all values, up to `most`. */
  const scale = (values, most = Infinity) => {
    const known = values.filter((v) => v !== null && Number.isFinite(v));
    let [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
    const wide = high - low || Math.abs(high) || 1;
    const power = 10 ** Math.floor(Math.log10(wide / 5));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s * 5 >= wide * 0.999);
    [low, high] = [Math.floor(low / step + 1e-9) * step, Math.min(most, Math.ceil(high / step - 1e-9) * step)];
    if (high <= low) [low, high] = high === most ? [low - step, high] : [low, low + step];
    const count = Math.floor((high - low) / step + 1e-9) + 1;
    const ticks = [...Array(count).keys()].map((i) => low + i * step).map((v) => [(v - low) / (high - low), digits(v)]);
    return { to: (v) => (v - low) / (high - low), ticks };
  };

  /* A picture in the design of the report. x, y: {ticks: [[share, text]]}; marks: SVG nodes
     in units of 1000 × 1000; items: what a pointer or the arrow keys show, as
     {name, points: [[x, y]], line, open}. */
  const chart = ({ says, head, xhead = "", x, y, high, marks, items, tall = true }) => {
    const grid = x.ticks.map(([at]) => `M${1000 * at} 0V1000`).concat(y.ticks.map(([at]) => `M0 ${1000 * (1 - at)}H1000`));
    const over = mark("path", { class: "over", d: "" });
    const svg = mark("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", role: "img", "aria-label": says });
    svg.append(mark("path", { class: "grid", d: grid.join("") }), ...marks, over);
    const plot = make("div", { class: "plot", style: `height:${high}rem` }, svg);
    for (const [at, text] of x.ticks) plot.append(make("i", { class: "x", style: `left:${100 * at}%` }, text));
    for (const [at, text] of y.ticks) plot.append(make("i", { class: "y", style: `bottom:${100 * at}%` }, text));
    if (xhead) plot.append(make("i", { class: "xhead" }, xhead));
    const readout = make("output", { class: "readout" });
    pick(plot, items, (item) => {
      const d = item ? item.points.map(([a, b], i) => `${i && item.line ? "L" : "M"}${(1000 * a).toFixed(1)} ${(1000 * (1 - b)).toFixed(1)}${item.line ? "" : "h0"}`) : [];
      over.setAttribute("d", d.join(""));
      over.setAttribute("class", item && !item.line ? "ring" : "over");
      readout.textContent = item ? item.name : "";
    });
    return make("figure", {}, make("div", { class: tall ? "chart tall" : "chart" }, make("b", { class: "yhead" }, head), plot), readout);
  };

  /* Choose the item nearest to the pointer, or the next one by the arrow keys. */
  const pick = (plot, items, show) => {
    let at = -1;
    const set = (i) => {
      at = i;
      show(items[i]);
      plot.setAttribute("aria-valuenow", String(Math.max(0, i)));
      plot.setAttribute("aria-valuetext", i < 0 ? "none" : items[i].name);
    };
    const far = (item, x, y, box) => {
      let best = Infinity;
      const spots = item.points.map(([a, b]) => [(a - x) * box.width, (1 - b - y) * box.height]);
      spots.forEach(([a, b], i) => {
        best = Math.min(best, a * a + b * b);
        if (!item.line || !i) return;
        const [c, d] = [spots[i - 1][0] - a, spots[i - 1][1] - b];
        const t = Math.max(0, Math.min(1, -(a * c + b * d) / (c * c + d * d || 1)));
        best = Math.min(best, (a + t * c) ** 2 + (b + t * d) ** 2);
      });
      return best;
    };
    if (!items.length) return;
    for (const [key, value] of Object.entries({ role: "slider", tabindex: "0", "aria-label": "Marked in the picture", "aria-valuemin": "0", "aria-valuemax": String(items.length - 1) })) plot.setAttribute(key, value);
    set(-1);
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      let [nearest, least] = [-1, 30 * 30];
      items.forEach((item, i) => {
        const d = far(item, x, y, box);
        if (d < least) [nearest, least] = [i, d];
      });
      if (nearest !== at) set(nearest);
    });
    plot.addEventListener("pointerleave", () => set(-1));
    plot.addEventListener("click", () => { if (at >= 0 && items[at].open) items[at].open(); });
    plot.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (by) {
        event.preventDefault();
        set((at + by + items.length + (at < 0 && by < 0)) % items.length);
      } else if (event.key === "Enter" && at >= 0 && items[at].open) items[at].open();
    });
  };

  const legend = (names) => {
    const line = ([name, i]) => {
      const svg = mark("svg", { viewBox: "0 0 28 8", "aria-hidden": "true" });
      svg.append(mark("path", { class: "line", d: "M1 4H27", style: Object.entries(look(i)).map((one) => one.join(":")).join(";") }));
      return make("li", {}, svg, name);
    };
    const more = names.length > NAMED ? [make("li", {}, `and ${names.length - NAMED} more`)] : [];
    return make("ul", { class: "legend" }, ...names.slice(0, NAMED).map(line), ...more);
  };

  const known = (run, at) => run.points.filter((p) => p[at] !== null);
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${(1000 * a).toFixed(1)} ${(1000 * (1 - b)).toFixed(1)}`).join("");

  /* Means over rounds: clients' own models, and the shared model. */
  const curves = (runs) => {
    const metric = (runs.find((run) => run.metric) || { metric: "" }).metric;
    const mine = runs.filter((run) => run.metric === metric && run.points.length);
    if (!mine.length) return [make("p", {}, "No run has an evaluation yet.")];
    const most = metric === "accuracy" ? 1 : Infinity;
    const y = scale(mine.flatMap((run) => run.points.flatMap((p) => p.slice(1))), most);
    const x = scale([0, ...mine.map((run) => run.total)]);
    const panel = (at, whose) => {
      const lines = mine.filter((run) => known(run, at).length);
      const items = lines.map((run) => {
        const points = known(run, at);
        const end = points[points.length - 1];
        return { name: `${run.label}: ${digits(end[at])} after round ${end[0]}`, line: true, points: points.map((p) => [x.to(p[0]), y.to(p[at])]) };
      });
      const marks = items.flatMap((item, i) => {
        const style = Object.entries(look(lines[i].place)).map((one) => one.join(":")).join(";");
        const made = [mark("path", { class: "line", d: path(item.points), style, "data-run": lines[i].id, "data-count": item.points.length })];
        if (item.points.length === 1) made.push(mark("path", { class: "dots", d: `${path(item.points)}h0`, style: `stroke:${look(lines[i].place).stroke};stroke-width:6` }));
        return made;
      });
      return chart({ says: `mean ${metric} over rounds, ${whose}, ${lines.length} runs`, head: `mean ${metric}, ${whose}`, xhead: "round", x, y, high: 13, marks, items });
    };
    const left = runs.length - mine.length;
    return [
      make("div", { class: "pair" }, panel(1, "clients' own models"), panel(2, "shared model")),
      legend(mine.map((run) => [run.label, run.place])),
      left ? make("p", { class: "soft" }, `${left} of the runs have no evaluation, or another metric.`) : "",
    ];
  };

  const state = (run) => {
    const line = make("p", { "data-state": run.state }, run.words);
    if (run.command) line.append(" ", ...command(run.command).flatMap((node) => [node, " "]));
    return line;
  };

  /* Draw a part again if what it shows has changed and the focus is not in it. */
  const drawn = new Map();
  const redraw = (id, value, nodes) => {
    const now = JSON.stringify(value);
    if (now === drawn.get(id) || find(id).contains(document.activeElement)) return;
    drawn.set(id, now);
    find(id).replaceChildren(...nodes());
  };

  const growing = (ids) => {
    let before = null;
    const finished = (runs) => runs.filter((run) => run.state === "finished").length;
    every(async () => {
      const runs = await asked("/api/live", ids);
      /* Before the first answer, the page assumes that one run is not finished: all runs
         may have ended after the page was made. */
      before = before ?? runs.length - 1;
      redraw("#states", runs.map((run) => run.words), () => runs.map(state));
      redraw("#growing", runs.map((run) => run.points), () => curves(runs));
      if (finished(runs) > before) location.reload();
      before = finished(runs);
    }, "#states");
  };
  const asks = find("#asks");
  if (asks) growing(JSON.parse(asks.textContent));
  return { mark, digits, every, asked, scale, chart, curves, redraw, state };
})();
