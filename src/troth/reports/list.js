"use strict";
/* The list of runs: grouped, searched, sorted and compared. What a user chooses is kept in
   the address. All content is inserted as text, never as HTML. */
(() => {
  const STEP = 200; /* rows that are added at a time */
  const OPEN = 100; /* up to this number of runs, all groups are open at first */
  const CURVES = 60; /* curves that are requested at a time, at most */
  const { find, make } = troth;
  const { mark, digits, asked, scale, chart, redraw } = troth.live;
  const setup = JSON.parse(find("#setup").textContent);
  const heads = setup.columns;
  const NUMBERS = ["mean", "std", "worst10", "shared", "seconds"];

  const known = (key) => Object.hasOwn(heads, key);
  const given = new URLSearchParams(location.search);
  const some = (key) => new Set(given.getAll(key));
  const view = { q: given.get("q") || "", sort: known(given.get("sort")) ? given.get("sort") : "", down: given.get("down") === "1", flat: given.get("flat") === "1" };
  const [open, shut, chosen] = [some("open"), some("shut"), some("run")];
  let columns = given.get("columns") ? given.get("columns").split(",").filter(known) : null;
  let [pair, limit, version, runs] = [[given.get("x"), given.get("y")], STEP, "", new Map()];
  const keep = () => {
    const now = new URLSearchParams();
    for (const key of ["q", "sort"]) if (view[key]) now.set(key, view[key]);
    for (const key of ["down", "flat"]) if (view[key]) now.set(key, "1");
    if (columns) now.set("columns", columns.join(","));
    for (const [key, set] of [["open", open], ["shut", shut], ["run", [...chosen].slice(0, setup.most)]]) for (const one of set) now.append(key, one);
    pair.forEach((id, i) => { if (id && chosen.has(id)) now.set("xy"[i], id); });
    history.replaceState(null, "", `?${now}`);
    sessionStorage.setItem("troth-runs", `?${now}`);
  };

  /* Which rows are shown, and in which order */
  const value = (run, key) => {
    if (key === "begun") return run.begun || NaN;
    if (key === "rounds" || NUMBERS.includes(key)) return parseFloat(run[key].replace("−", "-"));
    return run[key] === "–" ? "" : run[key];
  };
  const missing = (v) => v === "" || Number.isNaN(v);
  const order = (a, b) => {
    if (view.sort) {
      const [x, y] = [value(a, view.sort), value(b, view.sort)];
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const by = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
      if (by) return view.down ? -by : by;
    }
    return (b.state === "running") - (a.state === "running") || b.begun - a.begun || a.id.localeCompare(b.id, "en", { numeric: true });
  };
  const fits = () => {
    const tests = view.q.toLowerCase().split(/\s+/).filter(Boolean).map((term) => {
      const [, key, sign, than] = /^(\w+)(<=|>=|<|>|=)(.+)$/.exec(term) || [];
      if (!known(key)) return (run) => run.text.includes(term);
      if (sign === "=") return (run) => String(run[key]).toLowerCase() === than;
      const how = { "<": (v) => v < than, ">": (v) => v > than, "<=": (v) => v <= than, ">=": (v) => v >= than }[sign];
      return (run) => typeof value(run, key) === "number" && how(value(run, key));
    });
    return (run) => tests.every((test) => test(run));
  };
  const found = () => [...runs.values()].filter(fits()).sort(order);
  /* The runs that are found, in the order of the list, for pandas or a spreadsheet */
  const download = () => {
    const names = Object.keys(heads).filter((name) => name !== "curve");
    const text = (run, name) => {
      const v = value(run, name);
      if (missing(v)) return "";
      if (typeof v === "number") return name === "begun" ? new Date(1000 * v).toISOString() : String(v);
      return `"${v.replace(/^[=+@\t\r-]/, "'$&").replaceAll('"', '""')}"`; /* a spreadsheet runs no name as a formula */
    };
    const rows = [names, ...found().map((run) => names.map((name) => text(run, name)))];
    const url = URL.createObjectURL(new Blob(rows.map((row) => `${row.join(",")}\r\n`), { type: "text/csv" }));
    make("a", { href: url, download: "runs.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  const isOpen = (group) => open.has(group) || (!shut.has(group) && (view.q !== "" || runs.size <= OPEN));
  const lines = (every) => {
    if (view.flat) return every.map((run) => ({ run }));
    const groups = new Map();
    const whole = [];
    for (const run of every) {
      if (!run.group) whole.push({ run });
      else if (groups.has(run.group)) groups.get(run.group).push(run);
      else {
        groups.set(run.group, [run]);
        whole.push({ group: run.group, runs: groups.get(run.group) });
      }
    }
    return whole.flatMap((line) => (line.group && isOpen(line.group) ? [line, ...line.runs.map((run) => ({ run, inside: true }))] : [line]));
  };
  const shownColumns = () => {
    if (columns) return columns;
    const running = [...runs.values()].some((run) => run.state === "running");
    return ["label", "state", "begun", "rounds", ...(running ? ["left", "rate"] : []), "curve", "mean", "worst10", "shared"];
  };

  /* Rows. A row that did not change stays as it is, so that the focus stays in it. */
  const body = find("#list tbody");
  const curves = new Map(); /* id → what the server said of its rounds */
  const date = (seconds) => {
    const two = (n) => String(n).padStart(2, "0");
    const d = new Date(1000 * seconds);
    return seconds ? `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}` : "–";
  };
  const spark = (run) => {
    const points = (run ? run.points : []).filter((p) => p[1] !== null);
    if (!points.length) return "";
    const most = run.metric === "accuracy" ? 1 : Math.max(1e-12, ...points.map((p) => p[1]));
    const last = Math.max(1, run.total);
    const at = points.map((p, i) => `${i ? "L" : "M"}${((100 * p[0]) / last).toFixed(1)} ${(22 - (20 * p[1]) / most).toFixed(1)}`);
    const ends = [points[0], points[points.length - 1]].map((p) => digits(p[1]));
    const svg = mark("svg", { viewBox: "0 0 100 24", class: "spark", role: "img", "aria-label": `mean ${run.metric} from ${ends[0]} to ${ends[1]}` });
    svg.append(mark("path", { d: `M0 23H100` }), mark("path", { class: "line", d: at.length > 1 ? at.join("") : `${at[0]}h2` }));
    return svg;
  };
  const box = (label, ids) => make("label", { class: "pick" }, make("input", { type: "checkbox", "aria-label": label, onchange: (event) => choose(ids(), event.target.checked) }));
  const cell = (run, key, inside) => {
    if (key === "curve") return make("td", {}, spark(curves.get(run.id)));
    if (key !== "label") return make("td", { "data-field": key, class: key === "rounds" || NUMBERS.includes(key) ? "n" : "" }, key === "begun" ? date(run.begun) : run[key]);
    const name = inside || !run.group ? run.label : `${run.group} / ${run.label}`;
    const link = make("a", { href: `/report?${new URLSearchParams([["run", run.id]])}` }, name);
    return make("td", { class: inside ? "name inside" : "name" }, box(`Select ${run.id}`, () => [run.id]), " ", link, run.why ? make("div", { class: "soft small" }, run.why) : "");
  };
  const count = (every) => {
    const tally = {};
    for (const run of every) if (run.state !== "finished") tally[run.state] = (tally[run.state] || 0) + 1;
    return [`${every.length} run${every.length > 1 ? "s" : ""}`, ...Object.entries(tally).map(([state, n]) => `${n} ${state}`)].join(", ");
  };
  const drawGroup = (line) => {
    const turn = () => {
      const now = isOpen(line.group);
      open.delete(line.group);
      shut.delete(line.group);
      (now ? shut : open).add(line.group);
      draw();
    };
    const button = make("button", { type: "button", "aria-expanded": String(isOpen(line.group)), onclick: turn }, line.group);
    const values = line.runs.filter((run) => run.state === "finished" && !missing(value(run, "mean"))).sort((a, b) => (value(a, "mean") - value(b, "mean")) * (a.metric === "error" ? 1 : -1));
    const best = values.length ? `; best mean ${values[0].mean}: ${values[0].label}` : "";
    const newest = Math.max(...line.runs.map((run) => run.begun));
    return make("tr", { class: "group" }, make("td", { colspan: String(shownColumns().length) },
      box(`Select all of ${line.group}`, () => line.runs.map((run) => run.id)), " ", button, make("span", { class: "soft small" }, ` ${count(line.runs)}; ${date(newest)}${best}`)));
  };
  const key = (line) => (line.run ? `r${line.run.id}` : `g${line.group}`);
  let drawn = new Map(); /* key → [what the row shows, the row] */
  const draw = () => {
    const [every, names] = [found(), shownColumns()];
    const whole = lines(every);
    const next = new Map();
    for (const line of whole.slice(0, limit)) {
      const now = JSON.stringify([names, line, line.run ? curves.get(line.run.id) : isOpen(line.group)]);
      const [before, row] = drawn.get(key(line)) || [];
      const tr = before === now ? row : line.run ? make("tr", { "data-run": line.run.id, "data-state": line.run.state }, ...names.map((name) => cell(line.run, name, line.inside))) : drawGroup(line);
      next.set(key(line), [now, tr]);
    }
    const had = body.contains(document.activeElement) ? document.activeElement : null;
    const where = had && [...drawn].find(([, [, row]]) => row.contains(had));
    const at = where ? [...where[1][1].querySelectorAll("a, button, input")].indexOf(had) : -1;
    const rows = [...next.values()].map(([, row]) => row);
    if (rows.length !== body.rows.length || rows.some((row, i) => row !== body.rows[i])) body.replaceChildren(...rows);
    if (where && next.has(where[0]) && document.activeElement !== had) next.get(where[0])[1].querySelectorAll("a, button, input")[at].focus();
    drawn = next;
    find("#more").hidden = whole.length <= limit;
    find("#empty").hidden = runs.size > 0;
    for (const [name, [, row]] of next) {
      const line = name[0] === "g" ? whole.find((one) => one.group === name.slice(1)).runs.map((run) => run.id) : [name.slice(1)];
      const on = line.filter((id) => chosen.has(id)).length;
      const input = find("input", row);
      [input.checked, input.indeterminate] = [on === line.length, on > 0 && on < line.length];
    }
    const selected = chosen.size > setup.most ? `${chosen.size} selected, of which the first ${setup.most} are compared` : `${chosen.size} selected`;
    const said = `${every.length} of ${runs.size} runs found; ${selected}`;
    if (find("#chosen").textContent !== said) find("#chosen").textContent = said;
    find("#show").disabled = chosen.size === 0;
    keep();
  };
  const drawHeads = () => {
    const names = shownColumns();
    find("#list thead tr").replaceChildren(...names.map((name) => {
      const press = () => {
        view.down = view.sort === name ? !view.down : NUMBERS.includes(name) || name === "begun";
        view.sort = name;
        drawHeads();
        draw();
        find(`#list th[data-field="${name}"] button`).focus();
      };
      const sorted = view.sort === name && (view.down ? "descending" : "ascending");
      const text = name === "curve" ? heads[name] : make("button", { type: "button", onclick: press }, heads[name]);
      return make("th", { scope: "col", "data-field": name, class: name === "rounds" || NUMBERS.includes(name) ? "n" : "", "aria-sort": sorted }, text);
    }));
  };
  const choose = (ids, on) => {
    for (const id of ids) if (on) chosen.add(id); else chosen.delete(id);
    draw();
    compare().catch((error) => { find("#news").textContent = error.message; });
  };

  /* The selected runs */
  const part = (id, ...nodes) => find(id).replaceChildren(...nodes);
  const results = { mean: "mean", worst10: "worst 10 %", shared: "shared mean" };
  const named = (ids) => {
    const one = new Set(ids.map((id) => runs.get(id).group)).size < 2;
    return new Map(ids.map((id) => [id, one || !runs.get(id).group ? runs.get(id).label : `${runs.get(id).group} / ${runs.get(id).label}`]));
  };
  const table = (ids, names, keys, settings) => {
    const columns = [{ name: "run" }, ...keys.map((name) => ({ name })), ...Object.values(results).map((name) => ({ name, numeric: true }))];
    const text = (r, c) => {
      if (!c) return names.get(ids[r]);
      return c <= keys.length ? settings[ids[r]][keys[c - 1]] ?? "–" : runs.get(ids[r])[Object.keys(results)[c - 1 - keys.length]];
    };
    const title = keys.length ? "Settings that differ, and results" : "Results; the runs have the same settings";
    const place = make("div", { class: "table" }, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      make("table", {}, make("caption", {}, title), make("thead", {}, make("tr", {}, ...columns.map((c) => make("th", { scope: "col", class: c.numeric ? "n" : "" }, c.name)))), make("tbody"))));
    troth.table(place, columns, ids.length, text, (r) => make("tr", {}, ...columns.map((c, i) => make("td", { class: c.numeric ? "n" : "" }, text(r, i)))));
    return place;
  };
  const parallel = (ids, names, keys, settings) => {
    const mine = ids.filter((id) => runs.get(id).state === "finished" && !missing(value(runs.get(id), "mean")));
    if (!keys.length || mine.length < 2) return [];
    const axes = [
      ...keys.map((name) => {
        const texts = [...new Set(mine.map((id) => settings[id][name] ?? "–"))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
        const share = (i) => (texts.length > 1 ? i / (texts.length - 1) : 0.5);
        const every = Math.ceil(texts.length / 12);
        return { name, at: (id) => share(texts.indexOf(settings[id][name] ?? "–")), ticks: texts.map((t, i) => [share(i), t]).filter((t, i) => i % every === 0) };
      }),
      ...Object.entries(results).map(([name, head]) => {
        const to = scale(mine.map((id) => value(runs.get(id), name)), runs.get(mine[0]).metric === "accuracy" ? 1 : Infinity);
        return { name: head, at: (id) => to.to(value(runs.get(id), name)), ticks: to.ticks };
      }),
    ];
    const x = (i) => i / (axes.length - 1);
    const ranked = [...mine].sort((a, b) => axes[keys.length].at(a) - axes[keys.length].at(b));
    const items = ranked.map((id) => ({
      name: `${names.get(id)}: ${axes.map((axis, i) => `${axis.name} ${i < keys.length ? settings[id][axis.name] ?? "–" : runs.get(id)[Object.keys(results)[i - keys.length]]}`).join(", ")}`,
      line: true,
      points: axes.map((axis, i) => [x(i), axis.at(id)]).filter(([, at]) => Number.isFinite(at)),
    }));
    const marks = items.map((item, i) => mark("path", { class: "line", d: item.points.map(([a, b], k) => `${k ? "L" : "M"}${1000 * a} ${1000 * (1 - b)}`).join(""), style: `stroke:var(--s0);opacity:${(0.15 + (0.85 * i) / Math.max(1, items.length - 1)).toFixed(2)}` }));
    const picture = chart({ says: `settings and results of ${mine.length} runs, one line per run`, head: "Settings and results, one line per run; darker: higher mean", x: { ticks: axes.map((axis, i) => [x(i), axis.name]) }, y: { ticks: [] }, high: 16, marks, items });
    const plot = find(".plot", picture);
    axes.forEach((axis, i) => {
      for (const [at, text] of axis.ticks) plot.append(make("i", { class: i ? "y beside" : "y", style: `right:${100 * (1 - x(i))}%;bottom:${100 * at}%` }, text.slice(0, 18)));
    });
    picture.firstChild.style.minWidth = `${6 * axes.length}rem`;
    find(".chart", picture).classList.add("parallel");
    return [make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Settings and results" }, picture)];
  };
  const scatter = async (ids, names, keys, settings) => {
    const done = ids.filter((id) => runs.get(id).state === "finished");
    if (done.length < 2) return [];
    const data = keys.filter((name) => name === "seed" || /^(data|partition|features)\./.test(name));
    const apart = (x, y) => data.filter((name) => settings[x][name] !== settings[y][name]);
    if (!done.includes(pair[0])) pair[0] = done[0];
    const others = done.filter((id) => id !== pair[0]);
    if (!others.includes(pair[1])) pair[1] = others.find((id) => !apart(pair[0], id).length) || others[0];
    keep();
    const pick = (i, text) => {
      const select = make("select", { onchange: () => { pair[i] = select.value; scattered(ids, names, keys, settings).then(() => find(`#scatter select[data-axis="${i}"]`).focus()); }, "data-axis": String(i) }, ...done.map((id) => make("option", { value: id, ...(id === pair[i] ? { selected: "" } : {}) }, names.get(id))));
      return make("label", {}, text, select);
    };
    const head = [make("h3", {}, "Client by client"), make("div", { class: "controls" }, pick(0, "across: "), pick(1, "up: "))];
    const [a, b] = await asked("/api/clients", pair);
    if (a.metric !== b.metric || a.values.length !== b.values.length) return [...head, make("p", {}, "The two runs have other clients or another metric.")];
    const rows = a.values.map((v, k) => k).filter((k) => a.values[k] !== null && b.values[k] !== null);
    const both = scale(rows.flatMap((k) => [a.values[k], b.values[k]]), a.metric === "accuracy" ? 1 : Infinity);
    const items = rows.map((k) => ({
      name: `Client ${k}${a.malicious[k] ? " (malicious)" : ""}: across ${digits(a.values[k])}, up ${digits(b.values[k])}`,
      points: [[both.to(a.values[k]), both.to(b.values[k])]],
      open: () => location.assign(`/report?${new URLSearchParams(pair.map((id) => ["run", id]))}#client=${k}`),
    }));
    const spots = new Map(); /* place and role → number of clients there */
    items.forEach((item, i) => {
      const [[x, y]] = item.points;
      const spot = `${a.malicious[rows[i]] ? "m" : "b"}M${(1000 * x).toFixed(1)} ${(1000 * (1 - y)).toFixed(1)}h0`;
      spots.set(spot, (spots.get(spot) || 0) + 1);
    });
    const marks = [["over", "M0 1000L1000 0", ""], ...[...spots].sort().flatMap(([spot, n]) => { /* malicious clients on top */
      const [d, wide] = [spot.slice(1), Math.min(18, 3 + 2.5 * Math.sqrt(n))];
      if (spot[0] === "b") return [["dots", d, `stroke:var(--s0);stroke-width:${wide}`]];
      return [["dots", d, "stroke:var(--s1);stroke-width:7"], ["dots", d, "stroke:var(--paper);stroke-width:3.5"]];
    })];
    const benign = rows.filter((k) => !a.malicious[k]);
    const gains = benign.map((k) => (b.values[k] - a.values[k]) * (a.metric === "error" ? -1 : 1));
    const n = (test) => gains.filter(test).length;
    const words = `“${names.get(pair[1])}” is better than “${names.get(pair[0])}” for ${n((g) => g > 0)} benign clients, worse for ${n((g) => g < 0)} and equal for ${n((g) => g === 0)}. A larger dot is several clients. Rings are malicious clients.`;
    const other = apart(...pair);
    const caution = other.length ? ` The two runs differ in ${other.join(", ")}: a client may hold other data in the other run.` : "";
    const picture = chart({ says: `${a.metric} of ${rows.length} clients in two runs`, head: `${a.metric} with ${names.get(pair[1])}`, xhead: `${a.metric} with ${names.get(pair[0])}`, x: both, y: both, high: 22, marks: marks.map(([kind, d, style]) => mark("path", { class: kind, d, style })), items });
    return [...head, make("p", {}, words + caution), make("div", { class: "square" }, picture)];
  };
  const scattered = async (...given) => part("#scatter", ...await scatter(...given));
  let [drawnSettings, turn] = ["", 0];
  const compare = async () => {
    const mine = ++turn; /* an answer about an earlier selection is not shown */
    const ids = [...chosen].filter((id) => runs.has(id)).slice(0, setup.most);
    find("#hint").hidden = ids.length > 0;
    if (!ids.length) {
      for (const id of ["#states", "#curves"]) redraw(id, "", () => []);
      for (const id of ["#settings", "#parallel", "#scatter"]) part(id);
      drawnSettings = "";
      return;
    }
    const names = named(ids);
    const found = (await asked("/api/live", ids)).map((run) => ({ ...run, label: names.get(run.id) }));
    if (mine !== turn) return;
    const states = found.filter((run) => run.state !== "finished" || found.length === 1);
    redraw("#states", states.map((run) => run.words), () => states.map(troth.live.state));
    redraw("#curves", found.map((run) => [run.label, run.points]), () => [make("h3", {}, "Over rounds"), ...troth.live.curves(found)]);
    const nowSettings = JSON.stringify(ids.map((id) => [id, runs.get(id).state, runs.get(id).mean]));
    if (nowSettings === drawnSettings) return;
    drawnSettings = nowSettings;
    const { keys, runs: settings } = await asked("/api/settings", ids);
    if (mine !== turn) {
      drawnSettings = "";
      return;
    }
    part("#settings", ...(ids.length > 1 ? [make("h3", {}, "Settings"), table(ids, names, keys, settings)] : []));
    part("#parallel", ...parallel(ids, names, keys, settings));
    await scattered(ids, names, keys, settings);
  };

  /* Controls */
  const boxes = find("#choose fieldset");
  for (const [name, head] of Object.entries(heads)) {
    if (name === "label") continue;
    const input = make("input", { type: "checkbox", value: name, onchange: () => {
      const on = new Set(shownColumns());
      if (input.checked) on.add(name); else on.delete(name);
      columns = Object.keys(heads).filter((one) => on.has(one));
      drawHeads();
      draw();
    } });
    boxes.append(make("label", {}, input, ` ${head}`));
  }
  const search = find("#search");
  search.value = view.q;
  search.addEventListener("input", () => { view.q = search.value.trim(); limit = STEP; draw(); });
  const grouped = find("#grouped");
  grouped.checked = !view.flat;
  grouped.addEventListener("change", () => { view.flat = !grouped.checked; limit = STEP; draw(); });
  find("#all").addEventListener("click", () => choose(found().map((run) => run.id), true));
  find("#none").addEventListener("click", () => choose([...chosen], false));
  find("#show").addEventListener("click", () => location.assign(`/report?${new URLSearchParams([...chosen].slice(0, setup.most).map((id) => ["run", id]))}`));
  find("#csv").addEventListener("click", download);
  const more = () => { limit += STEP; draw(); };
  find("#more").addEventListener("click", more);
  const scroll = find("#list .scroll");
  scroll.addEventListener("scroll", () => { if (!find("#more").hidden && scroll.scrollTop + scroll.clientHeight > scroll.scrollHeight - 400) more(); });
  scroll.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const row = event.target.closest("tbody tr");
    const next = body.rows[row ? [...body.rows].indexOf(row) + by : 0];
    if (next) {
      event.preventDefault();
      find("input", next).focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input:not([type=checkbox]), select")) return;
    event.preventDefault();
    search.focus();
  });

  const read = (answer) => {
    version = answer.version;
    if (!answer.runs) return;
    runs = new Map(answer.runs.map((run) => [run.id, { ...run, text: Object.values(run).join("\n").toLowerCase() }]));
    for (const id of chosen) if (!runs.has(id)) chosen.delete(id);
    drawHeads.names = shownColumns().join();
    if (drawHeads.names !== drawHeads.before) drawHeads();
    drawHeads.before = drawHeads.names;
    for (const input of boxes.querySelectorAll("input")) input.checked = shownColumns().includes(input.value);
    draw();
  };
  read(setup.list);
  troth.start();
  troth.live.every(async () => {
    read(await asked("/api/runs", [], version));
    const there = [...body.rows].map((row) => row.dataset.run).filter((id) => runs.has(id));
    const wanted = there.filter((id) => !curves.has(id) || runs.get(id).state !== curves.get(id).state || runs.get(id).state === "running").slice(0, CURVES);
    if (shownColumns().includes("curve") && wanted.length) {
      for (const run of await asked("/api/live", wanted)) curves.set(run.id, run);
      draw();
    }
    await compare();
    find("#news").textContent = "";
  }, "#news");
})();
