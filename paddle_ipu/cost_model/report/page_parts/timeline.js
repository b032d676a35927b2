// The pipeline: which IPU works on which micro-batch, from fill to weight update.

function timelineView(report, section) {
  const { timeline } = report, readout = h("p", { class: "readout" });
  const stages = report.pipeline.stages;
  let by = "ipu";
  const { place, again } = drawing((into, width) =>
    into.replaceChildren(timelineChart(report, by, width, readout)));
  if (new Set(stages.map(x => x.ipu)).size < stages.length)
    section.append(h("div", { class: "controls" }, choice("rows",
      [["ipu", "IPUs"], ["stage", "stages"]], by, value => { by = value; again(); })));
  section.append(keyed([
    ["forward", colour("forward")],
    ...report.program.settings.training
      ? [["backward, with what is computed again", colour("backward")]] : [],
    ...timeline.update.length ? [["weight update", colour("update")]] : [],
    ["waiting", "var(--c-wait)"],
  ]), place, readout, h("h3", {}, "Stages, in thousand cycles of a micro-batch"),
    stageTable(report));
}

/** Each block gets its place: those that stand for many have a fixed width. */
function blockPlaces(timeline, width) {
  const many = 96, blocks = timeline.blocks;
  const inScale = sum(blocks.map(x => x.repeats > 1 ? 0 : x.cycles))
    + sum(timeline.update.map(([, , cycles]) => cycles));
  const folded = blocks.filter(x => x.repeats > 1).length * many;
  const shown = blocks.length + timeline.update.length;
  const scale = Math.max(width - folded, shown * (timeline.pipelined ? 24 : 60)) / (inScale || 1);
  let at = 0;
  const places = blocks.map(block => {
    const size = block.repeats > 1 ? many : block.cycles * scale;
    const place = { block, x: at, width: size, scale };
    at += size;
    return place;
  });
  const update = timeline.update.map(([name, start, cycles]) => {
    const place = { name, cycles, x: at, width: cycles * scale };
    at += place.width;
    return place;
  });
  return { places, update, end: at };
}

function timelineChart(report, by, width, readout) {
  const { timeline } = report, clock = report.machine.processor.clock;
  const stages = report.pipeline.stages, key = by === "ipu" ? 0 : 1;
  const rows = [...new Set(stages.map(x => by === "ipu" ? x.ipu : x.stage))].sort((a, b) => a - b);
  const left = 84, top = 24, tall = 26, gap = 5;
  const { places, update, end } = blockPlaces(timeline, width - left - 8);
  const height = top + rows.length * (tall + gap) + 22;
  const chart = canvas(left + end + 8, height);
  const lane = row => top + rows.indexOf(row) * (tall + gap);
  for (const row of rows) {
    const here = stages.filter(x => (by === "ipu" ? x.ipu : x.stage) === row);
    chart.append(
      s("text", { class: "ink", x: 0, y: lane(row) + 12 }, by === "ipu" ? `IPU ${row}`
        : `stage ${row}`),
      s("text", { x: 0, y: lane(row) + 24 }, by === "ipu"
        ? `stage ${here.map(x => x.stage).join(", ")}` : `IPU ${here[0].ipu}`),
      s("rect", { class: "wait", x: left, y: lane(row), width: end, height: tall, rx: 2 }));
  }
  phaseHeads(chart, places, update, left, top, height);
  const works = [], bars = [];
  for (const { block, x, scale } of places) for (const work of block.works) {
    const start = left + x + (work[4] - block.start) * scale, size = work[5] * scale;
    const bar = s("rect", {
      x: start + 0.5, y: lane(work[key]), width: Math.max(1, size - 1), height: tall, rx: 2,
      fill: colour(work[2]),
    });
    chart.append(bar);
    const number = String(work[3]);
    if (size > 8 * number.length + 4) chart.append(s("text", {
      class: "on", x: start + size / 2, y: lane(work[key]) + 17, "text-anchor": "middle",
      "pointer-events": "none",
    }, number));
    works.push([block, work]);
    bars.push(bar);
  }
  for (const { block, x, width: wide } of places) if (block.repeats > 1) chart.append(
    s("rect", {
      x: left + x + 1, y: top, width: wide - 2, height: rows.length * (tall + gap) - gap,
      fill: "var(--panel)", stroke: "var(--line)", "stroke-dasharray": "3 3", rx: 4,
    }),
    s("text", {
      class: "ink", x: left + x + wide / 2, y: top + rows.length * (tall + gap) / 2,
      "text-anchor": "middle",
    }, `× ${whole(block.repeats)}`, title(`${whole(block.repeats)} more like these, ${
      seconds(block.cycles / clock)}`)));
  for (const { name, x, width: wide, cycles } of update) for (const row of rows) chart.append(
    s("rect", {
      x: left + x + 0.5, y: lane(row), width: Math.max(1, wide - 1), height: tall, rx: 2,
      fill: colour("update"),
    }, title(`weight update, ${name}: ${seconds(cycles / clock)}`)));
  const text = at => {
    const [block, [ipu, stage, kind, microBatch, , cycles]] = works[at];
    return `${block.phase}: ${kind} of micro-batch ${microBatch} in stage ${stage} on IPU ${
      ipu}, ${seconds(cycles / clock)} (${whole(cycles)} cycles)`;
  };
  if (!works.length) return h("p", {}, "No operator takes time.");
  let before = null;
  const choose = slider(chart, "Work of IPUs on micro-batches", works.length, text, (at, silent) => {
    before?.classList.remove("chosen");
    before = bars[at];
    if (!silent) before.classList.add("chosen");
    readout.textContent = silent ? "The arrow keys, or the pointer, tell what each block is."
      : text(at);
    const view = chart.parentElement;
    if (view && !silent) {
      const x = Number(before.getAttribute("x"));
      if (x < view.scrollLeft + left || x > view.scrollLeft + view.clientWidth - 60)
        view.scrollLeft = x - left - 40;
    }
  });
  bars.forEach((bar, at) => bar.addEventListener("pointerenter", () => {
    before?.classList.remove("chosen");
    before = bar;
    bar.classList.add("chosen");
    readout.textContent = text(at);
  }));
  choose(0, true);
  return chart;
}

function phaseHeads(chart, places, update, left, top, height) {
  const spans = [];
  for (const { block, x, width } of places) {
    const last = spans.at(-1);
    if (last?.name === block.phase) last.width += width;
    else spans.push({ name: block.phase, x, width });
  }
  if (update.length) spans.push({
    name: "weight update", x: update[0].x, width: sum(update.map(part => part.width)),
  });
  for (const { name, x, width } of spans) {
    chart.append(s("line", {
      class: "axis", x1: left + x, x2: left + x, y1: 4, y2: height - 18,
    }));
    if (width > 7 * name.length) chart.append(
      s("text", { class: "ink", x: left + x + 4, y: 14 }, name));
  }
}

function stageTable(report) {
  const { stages, critical } = report.pipeline, k = value => whole(value / 1e3);
  const parts = stage => [stage.forward, stage.backward, stage.recompute];
  return h("div", { class: "scroll" }, h("table", {},
    heads(["#stage", "#IPU", "#forward", "#backward", "#computed again", "#host",
      "#all", "#of it compute", "#exchange", "#sync", "note"]),
    h("tbody", {}, stages.map(stage => h("tr", {},
      ...[stage.stage, stage.ipu, k(stage.forward.cycles), k(stage.backward.cycles),
        k(stage.recompute.cycles), k(stage.stream), k(stage.cycles),
        ...["compute", "exchange", "sync"].map(what => k(sum(parts(stage).map(x => x[what])))),
      ].map(value => cell(String(value), true)),
      cell(stage.stage === critical && stages.length > 1 ? "the others wait for it" : ""))))));
}
