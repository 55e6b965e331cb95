// What a report does when it is looked at: smooth curves, a logarithmic axis, values under the pointer, sorted tables.
// The page is whole without it. Charts come as data in <script id="charts">; geometry as in report/svg.py.
"use strict";
(() => {
  const { charts, width, height, left, right, top, bottom } = JSON.parse(document.getElementById("charts").textContent);
  const smoothing = document.getElementById("smoothing"), logarithmic = document.getElementById("logarithmic");
  const make = (name, attributes, parent) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return parent.appendChild(element);
  };
  const short = (value, percent) => {
    if (percent) return `${+value.toPrecision(3)}%`;
    for (const [limit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (Math.abs(value) >= limit * 0.9995) return +(value / limit).toPrecision(4) + letter;
    return `${+value.toPrecision(4)}`;
  };
  const ticks = (low, high, wanted) => {
    if (!(high > low)) return [low];
    const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= rough * 0.999);
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at <= Math.floor(high / step + 1e-9); at++) found.push(at * step);
    return found;
  };
  // Logarithms of 1, 2 and 5 times powers of ten, or of the powers alone where those are enough.
  const logTicks = (low, high) => {
    const found = [];
    for (let power = Math.floor(low); power <= high; power++)
      for (const factor of high - low > 2.5 ? [1] : [1, 2, 5]) found.push(power + Math.log10(factor));
    return found.filter(at => at >= low && at <= high);
  };
  // An exponential moving average whose start is not biased towards 0.
  const smooth = (points, weight) => {
    let sum = 0, total = 0;
    return points.map(([x, y]) => [x, (sum = weight * sum + (1 - weight) * y) / (total = weight * total + 1 - weight)]);
  };

  charts.forEach((chart, number) => {
    const svg = document.querySelectorAll("figure[data-chart] > svg")[number], figure = svg.parentElement;
    const scale = chart.percent ? 100 : 1;
    let shown = [], placeX, hidden = new Set();
    const draw = () => {
      const log = logarithmic.checked;
      shown = chart.curves.map(curve => smooth(curve.points, +smoothing.value)
        .map(([x, y]) => [x, y * scale]).filter(([, y]) => !log || y > 0));
      const seen = shown.filter((_, place) => !hidden.has(place)).flat();
      svg.replaceChildren();
      if (!seen.length) return;
      const level = log ? Math.log10 : value => value;
      const xs = seen.map(point => point[0]), ys = seen.map(point => level(point[1]));
      const xLow = Math.min(0, ...xs), xHigh = Math.max(...xs, xLow + 1);
      let yLow = Math.min(...ys), yHigh = Math.max(...ys);
      const margin = (yHigh - yLow) * 0.06 || Math.abs(yHigh) * 0.1 || 1;
      yLow = chart.from_zero && yLow >= 0 && !log ? 0 : yLow - margin;
      yHigh += margin;
      placeX = x => left + (x - xLow) / (xHigh - xLow) * (width - left - right);
      const placeY = value => height - bottom - (value - yLow) / (yHigh - yLow) * (height - top - bottom);
      for (const value of log ? logTicks(yLow, yHigh) : ticks(yLow, yHigh, 5)) {
        const at = placeY(value);
        make("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }, svg);
        make("text", { x: left - 7, y: at + 4, "text-anchor": "end" }, svg).textContent =
          short(log ? 10 ** value : value, chart.percent);
      }
      for (const value of ticks(xLow, xHigh, 6)) {
        const at = placeX(value);
        make("line", { class: "tick", x1: at, x2: at, y1: height - bottom, y2: height - bottom + 4 }, svg);
        make("text", { x: at, y: height - bottom + 17, "text-anchor": "middle" }, svg).textContent = short(value);
      }
      make("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }, svg);
      make("text", { x: width - right, y: height - 3, "text-anchor": "end" }, svg).textContent = "step";
      shown.forEach((points, place) => {
        if (hidden.has(place)) return;
        const { colour, dash } = chart.curves[place];
        const path = points.map(([x, y]) => `${placeX(x).toFixed(1)},${placeY(level(y)).toFixed(1)}`).join(" ");
        make("polyline", { class: "curve", points: path, stroke: colour, "stroke-dasharray": dash }, svg);
      });
    };
    const values = document.createElement("div");
    values.className = "values";
    values.hidden = true;
    figure.append(values);
    svg.addEventListener("pointermove", event => {
      const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * width;
      const near = points => points.reduce((a, b) => Math.abs(placeX(b[0]) - at) < Math.abs(placeX(a[0]) - at) ? b : a);
      const found = shown.map((points, place) => points.length && !hidden.has(place) ? near(points) : null);
      const steps = found.filter(point => point).map(point => point[0]);
      if (!steps.length) return;
      const step = steps.reduce((a, b) => Math.abs(placeX(b) - at) < Math.abs(placeX(a) - at) ? b : a);
      svg.querySelector(".pointer")?.remove();
      make("line", { class: "pointer", x1: placeX(step), x2: placeX(step), y1: top, y2: height - bottom }, svg);
      values.replaceChildren(`after ${step.toLocaleString()} steps`);
      found.forEach((point, place) => {
        if (!point) return;
        const line = document.createElement("div"), key = document.createElement("i");
        key.style.background = chart.curves[place].colour;
        line.append(key, `${chart.curves[place].label}: ${short(point[1], chart.percent)}`);
        values.append(line);
      });
      values.hidden = false;
      const x = event.clientX - figure.getBoundingClientRect().left;
      values.style.top = `${svg.offsetTop ?? 40}px`;
      values.style.left = `${Math.max(4, x > figure.clientWidth / 2 ? x - values.offsetWidth - 14 : x + 14)}px`;
    });
    svg.addEventListener("pointerleave", () => {
      values.hidden = true;
      svg.querySelector(".pointer")?.remove();
    });
    figure.querySelectorAll(".legend li").forEach((item, place) => {
      item.style.cursor = "pointer";
      item.title = "show or hide";
      item.addEventListener("click", () => {
        hidden.has(place) ? hidden.delete(place) : hidden.add(place);
        item.style.opacity = hidden.has(place) ? 0.35 : 1;
        draw();
      });
    });
    for (const control of [smoothing, logarithmic]) control.addEventListener("input", draw);
  });

  for (const table of document.querySelectorAll("table.sortable"))
    table.querySelectorAll("th").forEach((head, place) => head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => row.cells[place].dataset.value ?? row.cells[place].textContent;
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        return (x !== "" && y !== "" && !isNaN(x) && !isNaN(y) ? x - y : x.localeCompare(y)) * (down ? -1 : 1);
      });
      table.tBodies[0].append(...rows);
    }));
  const controls = document.querySelector(".controls");
  if (controls) controls.hidden = false;
})();
