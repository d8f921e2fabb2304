"use strict";
// Table and picture of a study. Text of the data is set as textContent only, so that none of it becomes markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const count = data.label.length, PAGE = 50, PRINTED = 50;
  const find = (id) => document.getElementById(id);
  const body = document.querySelector("#states tbody");
  const FAILED = data.outcomes.indexOf("FAILED");
  let order = Array.from({ length: count }, (_, i) => i); // states in the present order, after filters
  let sorting = { key: "gap", down: true }, page = 0, chosen = -1;

  function made(name, text, kind) {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  }

  // Numbers: value and interval with the same decimals.
  const minus = (text) => text.replaceAll("-", "−");
  function numbers(name, i) {
    const three = [data[name][i], data[name + "_low"][i], data[name + "_high"][i]];
    const given = three.filter((x) => x !== null).map(String);
    if (!given.length) return ["–", ""];
    const most = Math.max(...given.map((text) => (text.split(".")[1] || "").length));
    const fixed = most <= 10 && !given.some((text) => text.includes("e"));
    const said = three.map((x) => (x === null ? null : fixed ? x.toFixed(most) : String(x)));
    return [minus(said[0] ?? "–"), minus(`[${said[1] ?? "-∞"}, ${said[2] ?? "∞"}]`)];
  }
  const whole = (n) => (n === null ? "–" : n.toLocaleString("en"));
  const name = (a) => (a < 0 ? "–" : data.names[a]);
  const over = (i) => (data.rival[i] < 0 ? "" : `over ${name(data.rival[i])}`);
  const verdict = (i) => (data.outcome[i] === FAILED ? "failed" : data.decided[i] ? "decided" : "undecided");
  const ending = (i) => (data.outcome[i] === FAILED ? "" : data.outcomes[data.outcome[i]]);

  // The table.
  function row(i) {
    const line = made("tr", undefined, i === chosen ? "chosen" : ""), first = made("th"), pick = made("button", data.label[i]);
    first.scope = "row";
    pick.type = "button";
    pick.addEventListener("click", () => choose(i, false));
    first.append(pick, made("span", `no. ${data.number[i]}`, "second"));
    line.append(first);
    const cells = [[name(data.leader[i]), over(i)], numbers("gap", i), [verdict(i), ending(i)], numbers("mean", i),
      numbers("better", i), [whole(data.n[i]), ""], [data.key[i], ""]];
    for (const [text, below] of cells) {
      const cell = made("td", text);
      if (below) cell.append(made("span", below, "second"));
      line.append(cell);
    }
    return line;
  }
  function show(printing = false) {
    const from = printing ? 0 : page * PAGE;
    body.replaceChildren(...order.slice(from, from + (printing ? PRINTED : PAGE)).map(row));
    const pages = Math.max(1, Math.ceil(order.length / PAGE));
    find("where").textContent = `page ${page + 1} of ${pages.toLocaleString("en")}`;
    find("back").disabled = page === 0;
    find("on").disabled = page >= pages - 1;
    const printed = printing && order.length > PRINTED ? ` The first ${PRINTED} are printed.` : "";
    const title = document.querySelector(`#states [data-key=${sorting.key}] button`).textContent;
    find("shown").textContent =
      `${order.length.toLocaleString("en")} of ${count.toLocaleString("en")} states, sorted by ${title}, ` +
      `${sorting.down ? "descending" : "ascending"}.${printed}`;
  }

  // Sorting and filters. Unknown values come last in both directions.
  function value(key, i) {
    if (key === "leader" || key === "outcome") {
      const found = data[key][i];
      return found < 0 ? null : found;
    }
    if (key === "key") return BigInt(data.key[i]);
    if (key === "gap") return data.gap[i] === null ? null : -i; // states are in the order of their exact gaps
    return data[key][i] ?? (key === "better" ? data.better_low[i] : null);
  }
  function sort() {
    const values = order.map((i) => [value(sorting.key, i), i]), sign = sorting.down ? -1 : 1;
    values.sort(([a, i], [b, j]) => {
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      return (a < b ? -sign : a > b ? sign : 0) || i - j;
    });
    order = values.map(([, i]) => i);
  }
  function filter() {
    const outcome = find("by-outcome").value, leader = find("by-leader").value;
    const text = find("by-text").value.trim().toLowerCase(), least = parseFloat(find("by-gap").value);
    order = [];
    for (let i = 0; i < count; i++) {
      if (outcome && outcome !== verdict(i) && outcome !== `=${data.outcome[i]}`) continue;
      if (leader !== "" && data.leader[i] !== Number(leader)) continue;
      if (text && !data.label[i].toLowerCase().includes(text)) continue;
      if (!Number.isNaN(least) && !(data.gap[i] !== null && data.gap[i] >= least)) continue;
      order.push(i);
    }
    page = 0;
    sort();
    show();
    veil();
  }
  function options(select, entries) {
    for (const [key, text, n] of entries) {
      const option = made("option", n === null ? text : `${text} (${n.toLocaleString("en")})`);
      option.value = key;
      select.append(option);
    }
  }
  const counted = (test) => order.reduce((n, i) => n + test(i), 0);
  options(find("by-outcome"), [["", "all", null],
    ...["decided", "undecided", "failed"].map((kind) => [kind, kind, counted((i) => verdict(i) === kind)]).filter((entry) => entry[2]),
    ...data.outcomes.map((text, k) => [`=${k}`, text, counted((i) => data.outcome[i] === k)])]);
  const led = data.names.map((text, a) => [String(a), text, 0]);
  for (const a of data.leader) if (a >= 0) led[a][2]++;
  options(find("by-leader"), [["", "all", null], ...led.filter((entry) => entry[2])]);
  for (const id of ["by-outcome", "by-leader", "by-text", "by-gap"]) find(id).addEventListener("input", filter);
  find("controls").addEventListener("submit", (event) => event.preventDefault());
  find("controls").addEventListener("reset", () => setTimeout(filter));
  for (const head of document.querySelectorAll("#states thead th")) {
    const button = made("button", head.textContent), key = head.dataset.key;
    button.type = "button";
    button.addEventListener("click", () => {
      const first = ["gap", "mean", "better", "n"].includes(key); // the largest first
      sorting = { key, down: sorting.key === key ? !sorting.down : first };
      for (const other of document.querySelectorAll("#states thead th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
      page = 0;
      sort();
      show();
    });
    head.replaceChildren(button);
  }
  const turn = (by) => () => { page += by; show(); };
  find("back").addEventListener("click", turn(-1));
  find("on").addEventListener("click", turn(1));
  window.addEventListener("beforeprint", () => show(true));
  window.addEventListener("afterprint", () => show());

  // One state: what it is, in the picture and in the table.
  function choose(i, turnPage) {
    chosen = i;
    const at = order.indexOf(i);
    if (turnPage && at >= 0) page = Math.floor(at / PAGE);
    show();
    const place = find("chosen"), lines = [];
    if (data.leader[i] < 0) lines.push("The comparison raised an error; see Failures.");
    else {
      lines.push(`${name(data.leader[i])} ${over(i)}: gap ${numbers("gap", i).join(" ")}; ${verdict(i)} (${ending(i)})`);
      lines.push(`mean return ${numbers("mean", i).join(" ")}; earns more in ${numbers("better", i).join(" ")} percent; n = ${whole(data.n[i])}`);
    }
    if (at < 0) lines.push("The filters hide it in the table.");
    place.replaceChildren(made("h3", `State ${data.label[i]} (no. ${data.number[i]})`), ...lines.map((text) => made("p", text)));
    if (data.replay.length) {
      const again = made("pre");
      again.append(made("code", data.replay[0] + data.key[i] + data.replay[1]));
      place.append(again);
    }
    place.hidden = false;
    mark();
    if (!turnPage) place.scrollIntoView({ block: "nearest" });
  }
  function brief(i) {
    if (data.leader[i] < 0) return `${data.label[i]}\nfailed`;
    return `${data.label[i]}\n${name(data.leader[i])} ${over(i)}\ngap ${numbers("gap", i).join(" ")}\n${verdict(i)}`;
  }

  // The picture: maps find a state by its cell, sorted gaps by its rank.
  const SVG = "http://www.w3.org/2000/svg", tip = find("tip");
  const maps = [...document.querySelectorAll("svg.map")], gaps = document.querySelector("svg.gaps");
  const [[top, left], [down, across], [rows, columns]] = ["first", "step", "size"].map((key) => maps.length ? maps[0].dataset[key].split(" ").map(Number) : [0, 0]);
  const cellRow = (i) => (data.row[i] - top) / down, cellColumn = (i) => (data.column[i] - left) / across;
  const cells = new Map(), around = Math.max(rows, columns) > 40 ? 1 : 0; // a frame does not hide a small cell
  const number = (r, c) => r * columns + c;
  if (maps.length) for (let i = 0; i < count; i++) if (data.row[i] !== null && data.column[i] !== null) cells.set(number(cellRow(i), cellColumn(i)), i);
  const overlays = maps.map((map) => {
    const group = map.querySelector(".cells"), veiled = document.createElementNS(SVG, "path"), frame = document.createElementNS(SVG, "rect");
    veiled.setAttribute("class", "veil");
    frame.setAttribute("class", "picked");
    for (const side of ["width", "height"]) frame.setAttribute(side, 1 + 2 * around);
    frame.style.display = "none";
    group.append(veiled, frame);
    return { group, veiled, frame };
  });
  const rule = gaps ? gaps.querySelector(".field").appendChild(document.createElementNS(SVG, "path")) : null;
  if (rule) rule.setAttribute("class", "picked");
  function veil() {
    if (!maps.length) return;
    const seen = new Set(order);
    let path = "";
    if (seen.size < count) for (const [cell, i] of cells) if (!seen.has(i)) path += `M${cell % columns} ${Math.floor(cell / columns)}.5h1`;
    for (const { veiled } of overlays) veiled.setAttribute("d", path);
  }
  function mark() {
    for (const { frame } of overlays) {
      const known = data.row[chosen] !== null && data.column[chosen] !== null;
      frame.style.display = known ? "" : "none";
      if (known) frame.setAttribute("x", cellColumn(chosen) - around);
      if (known) frame.setAttribute("y", cellRow(chosen) - around);
    }
    if (rule) rule.setAttribute("d", chosen < Number(gaps.dataset.count) ? `M${(430 * (chosen + 0.5)) / gaps.dataset.count} 0V250` : "");
  }
  function below(event, group) { // the state below the pointer
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(group.getScreenCTM().inverse());
    if (!gaps) {
      const r = Math.floor(point.y), c = Math.floor(point.x);
      return r < 0 || c < 0 || r >= rows || c >= columns ? undefined : cells.get(number(r, c));
    }
    const rank = Math.floor((point.x / 430) * gaps.dataset.count);
    return rank >= 0 && rank < Math.min(count, gaps.dataset.count) ? rank : undefined;
  }
  function step(event) { // arrow keys
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    let next;
    if (chosen < 0) next = 0;
    else if (gaps) next = chosen + by[0] + by[1];
    else for (let k = 1; next === undefined && k <= Math.max(rows, columns); k++) {
      const r = cellRow(chosen) + k * by[0], c = cellColumn(chosen) + k * by[1];
      if (r < 0 || c < 0 || r >= rows || c >= columns) break;
      next = cells.get(number(r, c));
    }
    if (next !== undefined && next >= 0 && next < count) choose(next, true);
  }
  for (const [svg, group] of gaps ? [[gaps, gaps.querySelector(".field")]] : maps.map((map, k) => [map, overlays[k].group])) {
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("pointermove", (event) => {
      const i = below(event, group);
      tip.hidden = i === undefined;
      if (i === undefined) return;
      tip.textContent = brief(i);
      const edge = document.documentElement.clientWidth - tip.offsetWidth - 8;
      tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, edge)) + window.scrollX}px`;
      tip.style.top = `${event.clientY + 16 + window.scrollY}px`;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    svg.addEventListener("click", (event) => {
      const i = below(event, group);
      if (i !== undefined) choose(i, true);
    });
    svg.addEventListener("keydown", step);
  }

  find("controls").hidden = false;
  document.querySelector(".pager").hidden = count <= PAGE;
  if (maps.length || gaps) find("hint").hidden = false;
  show();
})();
