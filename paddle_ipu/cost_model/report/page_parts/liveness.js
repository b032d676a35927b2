// The liveness curve of an IPU: bytes alive at each operator of one pipeline cycle.

const DIRECTION = {
  forward: "forward", backward: "backward", recompute: "recompute", update: "update",
};

function livenessView(report, section, lines) {
  const { ipus, worst } = report.memory;
  const readout = h("p", { class: "readout" });
  let ipu = ipus.find(x => x.ipu === worst);
  const { place, again } = drawing((into, width) => {
    into.replaceChildren(ipu.curve.length ? livenessChart(report, ipu, width, readout, lines)
      : h("p", {}, "Nothing runs on this IPU."));
  });
  if (ipus.length > 1) section.append(h("div", { class: "controls" }, choice("of",
    ipus.map(x => [String(x.ipu), `IPU ${x.ipu}`]), String(worst), number => {
      ipu = ipus.find(x => x.ipu === Number(number));
      again();
    })));
  const phases = new Set(ipus.flatMap(x => x.curve.map(step => step[1])));
  section.append(keyed([
    ["always there", colour("weights")],
    ...ipus.some(x => x.categories.stash) ? [["stash", colour("stash")]] : [],
    ["alive meanwhile", colour("activations")],
    ...Object.entries({
      forward: "forward", backward: "backward", recompute: "computed again",
      update: "weight update",
    })
      .filter(([phase]) => phases.has(phase))
      .map(([phase, name]) => [`${name} (strip below)`, colour(DIRECTION[phase])]),
  ]), place, readout);
}

function livenessChart(report, ipu, width, readout, lines) {
  const height = 260, left = 62, right = 12, top = 12, bottom = 34;
  const { curve } = ipu, processor = report.machine.processor;
  const resident = ipu.always;
  const stash = ipu.categories.stash ?? 0;
  const room = roomOf(ipu, processor);
  const most = Math.max(curve.reduce((a, step) => Math.max(a, step[2]), 0), resident + stash);
  // Of a program that needs little, the curve is shown and not how far away the limit is.
  const near = room < 3 * most, high = 1.06 * (near ? Math.max(most, room) : 1.15 * most);
  const x = step => left + (width - left - right) * step / curve.length;
  const y = value => height - bottom - (height - top - bottom) * value / high;
  const area = value => s("rect", {
    x: left, y: y(value), width: width - left - right, height: y(0) - y(value),
  });
  const chart = canvas(width, height);
  for (const tick of ticks(high, 5)) chart.append(
    s("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
    s("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, bytes(tick)));
  chart.append(s("path", { d: outline(curve, x, y, width - left), fill: colour("activations") }));
  if (stash) chart.append(fill(area(resident + stash), { fill: colour("stash") }, []));
  chart.append(fill(area(resident), { fill: colour("weights") }, []));
  let start = 0;
  curve.forEach((step, at) => {
    if (at + 1 < curve.length && curve[at + 1][1] === step[1]) return;
    chart.append(s("rect", {
      x: x(start), width: Math.max(1, x(at + 1) - x(start)), y: height - bottom + 4, height: 6,
      fill: colour(DIRECTION[step[1]] ?? "code"),
    }));
    start = at + 1;
  });
  const limit = near ? y(room) : top + 6;
  if (near) chart.append(s("line", {
    class: "limit", x1: left, x2: width - right, y1: limit, y2: limit,
  }));
  chart.append(
    s("text", { class: "ink", x: width - right - 4, y: limit - 5, "text-anchor": "end" },
      `the fullest tile is full: ${bytes(room)}${near ? "" : ", far above"}`),
    s("text", { x: left, y: height - 6 }, `${whole(curve.filter(step => step[1] !== "update").length)} operators, in the order they run`));
  const line = s("line", { class: "cursor", y1: top, y2: height - bottom + 10 });
  chart.append(line);
  const text = at => {
    const [name, phase, size] = curve[at];
    const node = lines.get(name);
    return `${at === ipu.peak_step ? "the peak, " : ""}${bytes(size)} alive: ${
      node ? `${node.op_type} ` : ""}${name}, ${phase}${node?.layer ? `, ${node.layer}` : ""}${node?.source ? `, ${short(node.source)}` : ""}`;
  };
  const choose = slider(chart, `Memory alive on IPU ${ipu.ipu}, by operator`, curve.length, text,
    at => {
      const place = (x(at) + x(at + 1)) / 2;
      fill(line, { x1: place, x2: place }, []);
      readout.textContent = text(at);
    });
  const point = event => {
    const at = (event.offsetX - left) / (width - left - right) * curve.length;
    choose(Math.floor(at));
  };
  fill(chart, { onpointermove: point, onpointerdown: point }, []);
  choose(ipu.peak_step);
  return chart;
}

/** The curve as steps; of many operators within a pixel the least and the most are drawn. */
function outline(curve, x, y, pixels) {
  const every = Math.max(1, Math.floor(curve.length / Math.max(1, pixels)));
  const parts = [`M${x(0)} ${y(0)}`];
  for (let at = 0; at < curve.length; at += every) {
    const group = curve.slice(at, at + every).map(step => step[2]);
    const low = Math.min(...group), high = Math.max(...group);
    parts.push(`V${y(low).toFixed(1)}V${y(high).toFixed(1)}H${
      x(Math.min(curve.length, at + every)).toFixed(1)}`);
  }
  return `${parts.join("")}V${y(0)}Z`;
}

function ticks(high, wanted) {
  const raw = high / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(x => x * power).find(x => x >= raw);
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, at) => at * step);
}
