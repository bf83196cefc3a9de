"use strict";
/* What all pages share: the theme, commands to copy, printing, and tables that are sorted,
   filtered and paginated. Data are inserted as text, never as HTML. */
const troth = (() => {
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
    if (count > 10) place.prepend(controls);
    place.append(left);
    onPaper.push(whole);
    render();
  };

  const standing = (place) => {
    const heads = [...place.querySelectorAll("thead th")].map((th) => ({ name: th.textContent, numeric: th.className === "n" }));
    const rows = [...place.querySelectorAll("tbody tr")];
    table(place, heads, rows.length, (r, c) => rows[r].cells[c].textContent, (r) => rows[r]);
  };

  /* The theme follows the system until the button sets another one, which is kept. */
  const themes = () => {
    const button = find("#theme");
    const kept = (set) => {
      try {
        return set === undefined ? localStorage.getItem("troth-theme") : localStorage.setItem("troth-theme", set);
      } catch (error) {
        return ""; /* a browser may forbid a file to store anything */
      }
    };
    const show = (theme) => {
      if (theme) document.documentElement.dataset.theme = theme;
      else delete document.documentElement.dataset.theme;
      if (button) button.textContent = `Theme: ${theme || "system"}`;
    };
    show(["light", "dark"].find((theme) => theme === kept()) || "");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      const next = { "": "dark", dark: "light", light: "" }[document.documentElement.dataset.theme || ""];
      kept(next);
      show(next);
    });
  };
  const start = () => {
    copying();
    const home = find('header a[href="/"]'); /* back to the list as it was left */
    if (home) home.href = `/${sessionStorage.getItem("troth-runs") || ""}`;
    for (const place of document.querySelectorAll(".table:not(.clients)")) standing(place);
    if (!find("#data")) document.documentElement.dataset.ready = "yes";
  };
  themes();
  return { find, make, command, table, start };
})();
