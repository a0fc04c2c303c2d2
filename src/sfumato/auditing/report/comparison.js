"use strict";
(() => {
  const data = JSON.parse(document.getElementById("figures").textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const chosen = (kind) => new Set(all(`input[data-kind="${kind}"]`).filter((box) => box.checked).map((box) => box.value));
  const signed = (points, digits = 0) => `${points < 0 ? "\u2212" : "+"}${Math.abs(points).toFixed(digits)}`.replace(/^\u2212(0(\.0)?)$/, "+$1");
  const boxed = new Set(all(`input[data-kind="attack"]`).map((box) => box.value));
  const element = (name, text, look) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (look) made.className = look;
    return made;
  };

  // The extra of an attacker in the columns that matter; one that is after whole records gets the same whatever they are.
  function extra(one, attack, columns) {
    const whole = one.extras[attack], own = one.columns[attack];
    if (whole === undefined || !own || columns.size === data.columns.length) return whole?.extra;
    const told = own.filter((value, place) => value !== null && columns.has(data.columns[place]));
    return told.length ? told.reduce((sum, value) => sum + value, 0) / told.length : undefined;
  }

  function measured(one, attacks, columns, learners) {
    const extras = {};
    for (const name of Object.keys(one.extras)) extras[name] = extra(one, name, columns);
    const tried = Object.keys(extras).filter((name) => attacks.has(name) && extras[name] !== undefined);
    const strongest = tried.reduce((best, name) => (best === null || extras[name] > extras[best] ? name : best), null);
    const trained = Object.keys(one.learners).filter((name) => learners.has(name));
    const best = trained.reduce((top, name) => (top === null || one.learners[name] > one.learners[top] ? name : top), null);
    const asked = [...Object.keys(one.extras), ...Object.keys(one.reasons)].filter((name) => attacks.has(name) || !boxed.has(name));
    const kinds = new Set(tried.map((name) => data.kinds[name]));
    const untried = [...new Set(asked.map((name) => data.kinds[name]))].filter((kind) => !kinds.has(kind)).sort();
    const whole = columns.size === data.columns.length;
    const high = Math.max(...tried.map((name) => extras[name] + one.extras[name].high - one.extras[name].extra));
    return { extras, strongest, untried, whole, high, best, extra: strongest === null ? null : Math.max(0, extras[strongest]),
      accuracy: best === null ? null : one.learners[best], majority: one.majority };
  }

  const aside = (one) => one.untried.length > 0 || one.extra === null;

  // What was not tried is never 0: it is said. Columns of their own have no interval.
  function gained(one, place) {
    const parts = [];
    if (one.extra !== null) {
      const points = data.settings[place].extras[one.strongest];
      const between = one.whole ? `${signed(points.low)} to ${signed(points.high)}, ` : "";
      parts.push(`${one.untried.length ? "at least " : ""}${signed(one.extra)} extra (${between}${one.strongest})`);
    }
    if (one.untried.length) parts.push(`not tried: ${one.untried.join(", ")}`);
    return parts.join(", ") || "not tried";
  }

  function judge(found) {
    const known = (one) => one.accuracy !== null && one.extra !== null;
    for (const mine of found) {
      const beaten = known(mine) && found.some((other) => known(other) && !other.untried.length && other.extra <= mine.extra
        && other.accuracy >= mine.accuracy && (other.extra !== mine.extra || other.accuracy !== mine.accuracy));
      mine.worth = known(mine) && !beaten && !mine.untried.length && mine.accuracy > mine.majority;
    }
    const order = found.map((_, place) => place);
    order.sort((a, b) => found[b].worth - found[a].worth || aside(found[a]) - aside(found[b])
      || (found[a].extra ?? 0) - (found[b].extra ?? 0) || (found[b].accuracy ?? 0) - (found[a].accuracy ?? 0) || a - b);
    order.forEach((place, number) => { found[place].number = found[place].worth ? number + 1 : ""; });
    return order;
  }

  function draw(svg, found, order) {
    const at = (name) => Number(svg.dataset[name]);
    const standing = order.filter((place) => found[place].accuracy !== null && aside(found[place]));
    svg.querySelector(".aside").setAttribute("visibility", standing.length ? "visible" : "hidden");
    for (const place of order) {
      const point = svg.querySelector(`.point[data-i="${place}"]`), one = found[place];
      if (!point) continue;
      point.style.display = one.accuracy === null ? "none" : "";
      if (one.accuracy === null) continue;
      const x = aside(one) ? at("beside") + at("apart") * (standing.indexOf(place) % at("across"))
        : at("left") + (at("right") - at("left")) * one.extra / at("most");
      const y = at("bottom") - (at("bottom") - at("top")) * (100 * one.accuracy - at("low")) / (at("high") - at("low"));
      point.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      point.classList.toggle("worth", one.worth);
      point.querySelector(".place").textContent = one.number;
      point.querySelector("title").textContent = `${data.settings[place].name}, ${data.settings[place].setting}: `
        + `${Math.round(100 * one.accuracy)} of 100 right, ${gained(one, place)}`;
    }
  }

  function update() {
    const attacks = chosen("attack"), columns = chosen("column"), learners = chosen("learner");
    const found = data.settings.map((one) => measured(one, attacks, columns, learners)), order = judge(found);
    for (const head of all("[data-attack]")) head.hidden = !attacks.has(head.dataset.attack);
    for (const head of all("[data-group]")) {
      head.colSpan = Math.max(1, head.dataset.group.split(" ").filter((name) => attacks.has(name)).length);
      head.hidden = !head.dataset.group.split(" ").some((name) => attacks.has(name));
    }
    for (const cell of all("td[data-attack]")) {
      const value = found[cell.dataset.i].extras[cell.dataset.attack], there = value !== undefined;
      cell.classList.toggle("none", !there);
      cell.style.background = there ? `rgba(var(--minus), ${(0.0075 * Math.max(0, value)).toFixed(2)})` : "";
      cell.textContent = there ? String(Math.round(value)).replace(/^-0$/, "0") : "\u2013";
    }
    const body = document.querySelector("#table tbody");
    for (const place of order) {
      const row = body.querySelector(`tr[data-i="${place}"]`), one = found[place], cell = (name) => row.querySelector(`.${name}`);
      row.classList.toggle("beaten", !one.worth);
      cell("place").textContent = one.number;
      cell("accuracy").textContent = one.accuracy === null ? "\u2013" : Math.round(100 * one.accuracy);
      const trained = Object.keys(data.settings[place].learners).length;
      cell("learner").textContent = one.best ?? (trained ? "\u2013" : "none can be trained");
      cell("gained").textContent = gained(one, place);
      if (cell("within")) cell("within").textContent = one.whole && !aside(one) && one.high <= data.limit ? "within your limit" : "";
      body.append(row);
    }
    for (const svg of all("svg.frontier")) draw(svg, found, order);
    const kinds = [["attackers", "attack", attacks], ["columns", "column", columns], ["learners", "learner", learners]];
    const fewer = kinds.map(([words, kind, set]) => [words, set.size, all(`input[data-kind="${kind}"]`).length]);
    const left = fewer.filter(([, some, total]) => some < total).map(([words, some, total]) => `${some} of ${total} ${words}`);
    document.getElementById("chosen").textContent = left.length ? `: ${left.join(", ")}` : "";
    stop(all(`td[tabindex="0"]`).find((cell) => !cell.hidden));
  }

  // One tab stop for the matrix; arrow keys go on from there.
  const matrix = document.querySelector(".matrix");
  const cells = (row) => all("td[data-attack]", row).filter((cell) => !cell.hidden);

  function stop(cell) {
    for (const one of all(`td[tabindex="0"]`, matrix)) one.tabIndex = -1;
    const next = cell ?? cells(matrix)[0];
    if (next) next.tabIndex = 0;
    return next;
  }

  function walk(event) {
    const cell = event.target.closest("td[data-attack]");
    if (!cell) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(cell);
      return;
    }
    const rows = all("tbody tr", matrix), row = rows.indexOf(cell.parentElement), place = cells(cell.parentElement).indexOf(cell);
    const at = (line, column) => {
      const there = cells(rows[Math.min(rows.length - 1, Math.max(0, line))]);
      return there[Math.min(there.length - 1, Math.max(0, column))];
    };
    const ways = { ArrowRight: [row, place + 1], ArrowLeft: [row, place - 1], ArrowDown: [row + 1, place], ArrowUp: [row - 1, place],
      Home: [row, 0], End: [row, Infinity] };
    if (!ways[event.key]) return;
    event.preventDefault();
    stop(at(...ways[event.key])).focus();
  }

  function open(cell) {
    const one = data.settings[cell.dataset.i], attack = cell.dataset.attack, panel = document.getElementById("cell");
    const close = element("button", "Close", "close");
    close.addEventListener("click", () => panel.close());
    const parts = [close, element("h3", `${attack} against ${one.name}, ${one.setting}`)];
    if (data.stories[attack]) parts.push(element("p", data.stories[attack], "hint"));
    const whole = one.extras[attack], own = one.columns[attack];
    if (whole === undefined) {
      parts.push(element("p", `Not tried: ${one.reasons[attack] ?? "it has no figure in every split"}.`));
    } else {
      parts.push(element("p", `${whole.right.toFixed(1)} of 100 ${whole.pairs ? "pairs told apart" : "right"}, ${whole.without.toFixed(1)} without `
        + `the release: ${signed(whole.extra, 1)} extra (95%: ${signed(whole.low, 1)} to ${signed(whole.high, 1)}).`));
    }
    if (own) {
      const table = element("table"), body = element("tbody");
      table.append(element("caption", "Extra by column"));
      const order = own.map((value, place) => [value, data.columns[place]]).filter(([value]) => value !== null).sort((a, b) => b[0] - a[0]);
      for (const [value, name] of order) {
        const row = element("tr"), head = element("th", name), bar = element("td", undefined, "bar"), strip = element("div");
        head.scope = "row";
        strip.style.width = `${Math.min(100, Math.max(0, value)).toFixed(1)}%`;
        bar.append(strip);
        row.append(head, element("td", signed(value, 1), "number"), bar);
        body.append(row);
      }
      table.append(body);
      parts.push(table);
    } else if (whole !== undefined) {
      parts.push(element("p", "This attacker is after whole records, not columns."));
    }
    const worst = one.exposed[attack] ?? [];
    if (worst.length) parts.push(element("p", `Most exposed rows of your table (from 1): ${worst.join(", ")}.`));
    panel.replaceChildren(...parts);
    panel.showModal();
  }

  document.documentElement.classList.add("scripted");
  matrix.setAttribute("role", "grid");
  for (const cell of all("td[data-attack]")) cell.tabIndex = -1;
  stop();
  matrix.addEventListener("keydown", walk);
  document.addEventListener("change", (event) => event.target.matches("input[data-kind]") && update());
  document.addEventListener("click", (event) => {
    const cell = event.target.closest("td[data-attack]"), every = event.target.closest("button[data-all]");
    if (cell) {
      stop(cell).focus();
      open(cell);
    }
    if (event.target.id === "cell") event.target.close();
    if (!every) return;
    const boxes = all(`input[data-kind="${every.dataset.all}"]`), to = !boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = to;
    update();
  });
})();
