// The roofline: what each kind of operator with products computes a second, below what it could.

function rooflineView(report, section) {
  const { roofline } = report, readout = h("p", { class: "readout" });
  if (!roofline.points.length) {
    section.append(h("p", {}, "No operator of this program multiplies matrices."));
    return;
  }
  const { place } = drawing((into, width) =>
    into.replaceChildren(rooflineChart(report, Math.min(width, 900), readout)));
  section.append(place, readout);
}

function rooflineChart(report, width, readout) {
  const { roofline } = report, height = 320, left = 74, right = 16, top = 14, bottom = 40;
  const cycles = new Map(report.operators.map(row =>
    [`${row.op_type}\n${row.source}\n${row.layer}\n${row.ipu}`, row.forward + row.backward]));
  const all = sum([...cycles.values()]) || 1;
  const points = roofline.points.map(point => ({
    ...point,
    share: (cycles.get(`${point.operator}\n${point.source}\n${point.layer}\n${point.ipu}`) ?? 0) / all,
  })).filter(point => point.flops_per_second > 0).sort((a, b) => b.share - a.share);
  const bends = [roofline.exchange_bandwidth, roofline.memory_bandwidth].map(rate =>
    roofline.peak_flops / rate);
  const intensities = [...points.map(point => point.intensity), ...bends];
  const low = Math.floor(Math.log10(Math.min(...intensities)));
  const high = Math.ceil(Math.log10(Math.max(...intensities) * 1.2));
  const least = Math.floor(Math.log10(Math.min(roofline.peak_flops / 300,
    ...points.map(x => x.flops_per_second))));
  const most = Math.log10(roofline.peak_flops) + 0.25;
  const x = value => left + (width - left - right) * (Math.log10(value) - low) / (high - low);
  const y = value => height - bottom
    - (height - top - bottom) * (Math.log10(value) - least) / (most - least);
  const chart = canvas(width, height);
  for (let power = low; power <= high; power += 1) chart.append(
    s("line", { class: "grid", x1: x(10 ** power), x2: x(10 ** power), y1: top, y2: height - bottom }),
    s("text", { x: x(10 ** power), y: height - bottom + 16, "text-anchor": "middle" },
      `${10 ** power}`));
  for (let power = least; power <= most; power += 1) chart.append(
    s("line", { class: "grid", x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power) }),
    s("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, count(10 ** power)));
  chart.append(
    s("text", { x: width - right, y: height - 6, "text-anchor": "end" },
      "operations for each byte read or written"),
    s("text", { x: 0, y: 10 }, "operations a second"));
  for (const [name, rate, kind] of [["exchange", roofline.exchange_bandwidth, " other"],
    ["tile memory", roofline.memory_bandwidth, ""]]) {
    const bend = roofline.peak_flops / rate;
    const from = Math.max(10 ** low, 10 ** least / rate);
    const corner = Math.min(10 ** high, bend);
    chart.append(s("path", {
      class: `roof${kind}`,
      d: `M${x(from)} ${y(from * rate)}L${x(corner)} ${y(corner * rate)}H${width - right}`,
    }), s("text", { x: x(corner) - 8, y: y(corner * rate) + (kind ? 26 : 16), "text-anchor": kind ? "start" : "end" }, name));
  }
  chart.append(s("text", { class: "ink", x: width - right, y: y(roofline.peak_flops) - 6,
    "text-anchor": "end" }, `peak of an IPU: ${count(roofline.peak_flops)}FLOP/s`));
  const text = at => {
    const point = points[at];
    return `${point.operator}${point.layer ? `, ${point.layer}` : ""}${point.source ? `, ${short(point.source)}` : ""}, IPU ${point.ipu}: ${
      percent(point.flops_per_second / roofline.peak_flops)} of the peak, ${
      count(point.intensity)} operations a byte, ${percent(point.share)} of the operators' time`;
  };
  const marks = points.map(point => s("circle", {
    cx: x(point.intensity), cy: y(point.flops_per_second), r: 4 + 14 * Math.sqrt(point.share),
    fill: colour("forward"), "fill-opacity": 0.65,
  }));
  chart.append(...marks);
  if (!points.length) return chart;
  const choose = slider(chart, "Operators below the roofline, those that take longest first",
    points.length, text, at => {
      marks.forEach((mark, other) => mark.classList.toggle("chosen", other === at));
      readout.textContent = text(at);
    });
  marks.forEach((mark, at) => mark.addEventListener("pointerenter", () => choose(at)));
  choose(0);
  return chart;
}
