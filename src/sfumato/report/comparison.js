"use strict";
(() => {
  const data = JSON.parse(document.getElementById("figures").textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const chosen = (kind) => new Set(all(`input[data-kind="${kind}"]`).filter((box) => box.checked).map((box) => box.value));
  const signed = (share) => `${share < 0 ? "\u2212" : "+"}${Math.abs(100 * share).toFixed(1)}`;
  const boxed = new Set(all(`input[data-kind="attack"]`).map((box) => box.value));
  const element = (name, text, look) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (look) made.className = look;
    return made;
  };

  // What an adversary gains in the columns that matter; one that is after whole records gains the same whatever they are.
  function gain(one, attack, columns) {
    const whole = one.gains[attack], own = one.columns[attack];
    if (whole === undefined || !own || columns.size === data.columns.length) return whole;
    const told = own.filter((value, place) => value !== null && columns.has(data.columns[place]));
    return told.length ? told.reduce((sum, value) => sum + value, 0) / told.length : undefined;
  }

  function measured(one, attacks, columns, learners) {
    const gains = {};
    for (const name of Object.keys(one.gains)) gains[name] = gain(one, name, columns);
    const believed = Object.keys(gains).filter((name) => attacks.has(name) && gains[name] !== undefined);
    const strongest = believed.reduce((best, name) => (best === null || gains[name] > gains[best] ? name : best), null);
    const trained = Object.keys(one.learners).filter((name) => learners.has(name));
    const best = trained.reduce((top, name) => (top === null || one.learners[name] > one.learners[top] ? name : top), null);
    const asked = [...Object.keys(one.gains), ...Object.keys(one.reasons)].filter((name) => attacks.has(name) || !boxed.has(name));
    const tried = new Set(believed.map((name) => data.kinds[name]));
    const untried = [...new Set(asked.map((name) => data.kinds[name]))].filter((kind) => !tried.has(kind)).sort();
    return { gains, strongest, untried, risk: strongest === null ? null : Math.max(0, gains[strongest]), best,
      accuracy: best === null ? null : one.learners[best] };
  }

  // What nobody tried is never 0: it is said.
  const notTried = (one, before) => (one.untried.length ? `${before}not tried: ${one.untried.join(", ")}` : "");
  const gained = (one) => (one.risk === null ? "none tried" : `${signed(one.risk)}%`) + notTried(one, ", ");

  function beaten(mine, found) {
    const known = (one) => one.accuracy !== null && one.risk !== null;
    return known(mine) && found.some((other) => known(other) && !other.untried.length && other.risk <= mine.risk
      && other.accuracy >= mine.accuracy && (other.risk !== mine.risk || other.accuracy !== mine.accuracy));
  }

  // The nearest free place for a name beside its mark, as frontier.py has it: how far down, and whether to the left.
  function place(x, y, name, taken, svg) {
    const at = (side) => Number(svg.dataset[side]), wide = 7 * name.length, sides = x > 480 ? [true, false] : [false, true];
    for (const step of [0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6]) {
      for (const left of sides) {
        const from = left ? x - 9 - wide : x + 9, down = y + 13 * step, box = [from, down - 7, from + wide, down + 7];
        const free = !taken.some((one) => one[0] < box[2] && box[0] < one[2] && one[1] < box[3] && box[1] < one[3]);
        if (from < at("left") || from + wide > at("right") + 16 || down < at("top") || down > at("bottom") || !free) continue;
        taken.push(box);
        return [13 * step, left];
      }
    }
    return [0, sides[0]];
  }

  function draw(svg, found) {
    const at = (name) => Number(svg.dataset[name]);
    const named = new Set(), wanted = [], taken = all("text[data-box]", svg).map((text) => text.dataset.box.split(" ").map(Number));
    const points = all(".point", svg).sort((a, b) => {
      const one = found[a.dataset.i], other = found[b.dataset.i];
      return other.dominated - one.dominated || other.accuracy - one.accuracy;
    });
    for (const point of points) {
      const one = found[point.dataset.i], name = data.settings[point.dataset.i].name;
      const hidden = one.accuracy === null || (svg.dataset.kind === "risk" && one.risk === null);
      point.style.display = hidden ? "none" : "";
      if (hidden) continue;
      const old = point.getAttribute("transform").match(/[-\d.]+/g).map(Number);
      const x = svg.dataset.kind === "risk" ? at("left") + (at("right") - at("left")) * Math.min(1, one.risk) : old[0];
      const share = Math.max(0, (one.accuracy - at("least")) / (1 - at("least")));
      const y = at("bottom") - (at("bottom") - at("top")) * share;
      point.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      point.querySelector(".mark").classList.toggle("dominated", one.dominated);
      point.querySelector("title").textContent = `${name}, ${data.settings[point.dataset.i].setting}: accuracy `
        + `${(100 * one.accuracy).toFixed(1)}%, adversary ${gained(one)}`;
      const shows = !one.dominated && !named.has(name);
      point.querySelector(".direct").setAttribute("visibility", shows ? "visible" : "hidden");
      point.querySelector(".leader").setAttribute("visibility", "hidden");
      taken.push([x - 7, y - 7, x + 7, y + 7]);
      if (!shows) continue;
      named.add(name);
      wanted.push([point, name, x, y]);
    }
    for (const [point, name, x, y] of wanted) {
      const label = point.querySelector(".direct"), leader = point.querySelector(".leader");
      const [down, left] = place(x, y, name, taken, svg);
      label.setAttribute("y", down + 4);
      label.setAttribute("x", left ? -9 : 9);
      label.setAttribute("text-anchor", left ? "end" : "start");
      leader.setAttribute("visibility", down ? "visible" : "hidden");
      leader.setAttribute("x2", left ? -9 : 9);
      leader.setAttribute("y2", down);
    }
  }

  function update() {
    const attacks = chosen("attack"), columns = chosen("column"), learners = chosen("learner");
    const found = data.settings.map((one) => measured(one, attacks, columns, learners));
    for (const one of found) one.dominated = beaten(one, found);
    for (const head of all("[data-attack]")) head.hidden = !attacks.has(head.dataset.attack);
    for (const head of all("[data-group]")) {
      head.colSpan = Math.max(1, head.dataset.group.split(" ").filter((name) => attacks.has(name)).length);
      head.hidden = !head.dataset.group.split(" ").some((name) => attacks.has(name));
    }
    for (const cell of all("td[data-attack]")) {
      const value = found[cell.dataset.i].gains[cell.dataset.attack], there = value !== undefined;
      cell.classList.toggle("none", !there);
      cell.style.background = there ? `rgba(var(--minus), ${(0.75 * Math.max(0, value)).toFixed(2)})` : "";
      cell.firstElementChild.textContent = there ? String(Math.round(100 * value)).replace(/^-0$/, "0") : "\u2013";
    }
    for (const row of all("#table tr[data-i]")) {
      const one = found[row.dataset.i], cell = (name) => row.querySelector(`.${name}`);
      row.classList.toggle("dominated", one.dominated);
      cell("accuracy").textContent = one.accuracy === null ? "\u2013" : `${(100 * one.accuracy).toFixed(1)}%`;
      const trained = Object.keys(data.settings[row.dataset.i].learners).length;
      cell("learner").textContent = one.best ?? (trained ? "\u2013" : "none can be trained");
      cell("gained").textContent = one.risk === null ? "\u2013" : `${signed(one.risk)}%`;
      cell("strongest").textContent = (one.strongest ?? "none applies") + notTried(one, "; ");
    }
    for (const svg of all("svg.frontier")) draw(svg, found);
    const kinds = [["adversary", "adversaries", "attack", attacks], ["column", "columns", "column", columns], ["learner", "learners", "learner", learners]];
    document.getElementById("chosen").textContent = kinds.map(([one, many, kind, set]) => {
      const total = all(`input[data-kind="${kind}"]`).length;
      return `${set.size} of ${total} ${total === 1 ? one : many}`;
    }).join(", ") + ".";
  }

  function open(cell) {
    const one = data.settings[cell.dataset.i], attack = cell.dataset.attack, panel = document.getElementById("cell");
    const close = element("button", "Close", "close");
    close.addEventListener("click", () => panel.close());
    const parts = [close, element("h3", `${attack} against ${one.name}, ${one.setting}`)];
    if (data.stories[attack]) parts.push(element("p", data.stories[attack], "hint"));
    const whole = one.gains[attack], own = one.columns[attack];
    if (whole === undefined) {
      parts.push(element("p", `Not applicable: ${one.reasons[attack] ?? "it has no figure in every split"}.`));
    } else {
      const [low, high] = one.intervals[attack];
      parts.push(element("p", `Gain over somebody who never saw the release: ${signed(whole)} points of a hundred (95%: ${signed(low)} to ${signed(high)}).`));
    }
    if (own) {
      const table = element("table"), body = element("tbody");
      table.append(element("caption", "Gain by column"));
      const order = own.map((value, place) => [value, data.columns[place]]).filter(([value]) => value !== null).sort((a, b) => b[0] - a[0]);
      for (const [value, name] of order) {
        const row = element("tr"), head = element("th", name), bar = element("td", undefined, "bar"), strip = element("div");
        head.scope = "row";
        strip.style.width = `${(100 * Math.min(1, Math.max(0, value))).toFixed(1)}%`;
        bar.append(strip);
        row.append(head, element("td", signed(value), "number"), bar);
        body.append(row);
      }
      table.append(body);
      parts.push(table);
    } else if (whole !== undefined) {
      parts.push(element("p", "This adversary is after whole records, not columns."));
    }
    const worst = one.exposed[attack] ?? [];
    if (worst.length) parts.push(element("p", `Most exposed rows of your table (from 1): ${worst.join(", ")}.`));
    panel.replaceChildren(...parts);
    panel.showModal();
  }

  document.documentElement.classList.add("scripted");
  document.addEventListener("change", (event) => event.target.matches("input[data-kind]") && update());
  document.addEventListener("click", (event) => {
    const cell = event.target.closest("td[data-attack]"), every = event.target.closest("button[data-all]");
    if (cell) open(cell);
    if (event.target.id === "cell") event.target.close();
    if (!every) return;
    const boxes = all(`input[data-kind="${every.dataset.all}"]`), to = !boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = to;
    update();
  });
})();
