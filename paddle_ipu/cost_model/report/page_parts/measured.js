// What XLA's program took on this machine. Where the same line or family has a prediction, it
// stands beside it in a column of its own: another machine's time, in another colour.

function measuredView(report, section, nodes) {
  const { measured } = report, families = measured.families ?? [], lines = measured.lines ?? [];
  const run = measured.seconds_per_run;
  section.append(h("dl", { class: "facts" },
    [["machine", measured.machine], ["runs measured", measured.steps], ["time of a run", seconds(run)]]
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))])));
  const predicted = predictedTimes(report, nodes, lines);
  const head = names => h("thead", {}, h("tr", {}, names.map(([name, kind]) =>
    h("th", { scope: "col", class: kind === "text" ? undefined : `n ${kind}` }, name))));
  const beside = time => h("td", { class: "n soft", "data-sort": time ?? "" }, time === undefined ? "" : seconds(time));
  const own = time => h("td", { class: "n measured", "data-sort": time }, seconds(time));
  const share = time => {
    const bar = h("i", { class: "bar" });
    bar.style.width = `${60 * time / run}px`;
    bar.style.background = colour("measured");
    return h("td", { class: "n", "data-sort": time }, bar, percent(time / run));
  };
  const columns = [["measured here", "measured"], ["of the run", ""],
    [`predicted for ${report.machine.name}`, ""]];
  if (families.length) section.append(h("h3", {}, "By family of operators"),
    h("div", { class: "scroll" }, h("table", {}, head([["family", "text"], ...columns]),
      h("tbody", {}, families.map(row => h("tr", {}, cell(row.family), own(row.seconds),
        share(row.seconds), beside(predicted.families.get(row.family))))))));
  const layers = report.measured_layers ?? [];
  if (layers.some(row => row.layer)) section.append(h("h3", {}, "By layer"),
    h("div", { class: "scroll" }, h("table", {}, head([["layer", "text"], ...columns]),
      h("tbody", {}, layers.map(row => h("tr", {}, cell(row.layer || "in no layer"),
        own(row.measured), share(row.measured), beside(row.predicted)))))));
  if (lines.length) section.append(h("h3", {}, "By line, those that took longest"),
    h("div", { class: "scroll" }, h("table", {},
      head([["line", "text"], ["layer", "text"], ["operator", "text"], ["forward", ""], ["backward", ""], ...columns]),
      h("tbody", {}, lines.map(row => h("tr", {}, lineCell(row.source),
        cell(row.layer ?? ""), cell(row.operator), cell(seconds(row.forward), true, row.forward),
        cell(seconds(row.backward), true, row.backward),
        own(row.seconds), share(row.seconds),
        beside(predicted.lines.get(`${row.popart}\n${row.source}\n${row.layer ?? ""}`))))))));
}

/** Seconds of a run that the prediction gives families and lines, on their IPUs. */
function predictedTimes(report, nodes, lines) {
  const { settings } = report.program;
  const times = settings.accumulation * settings.batches_per_step
    / report.machine.processor.clock;
  const family = new Map(lines.map(row => [row.popart, row.family]));
  const found = { families: new Map(), lines: new Map() };
  const add = (map, key, time) => map.set(key, (map.get(key) ?? 0) + time);
  const update = sum(Object.values(report.cycles.weight_update));
  if (update) found.families.set("weight update",
    update * settings.batches_per_step / report.machine.processor.clock);
  for (const node of nodes) {
    const time = node.all * times;
    add(found.lines, `${node.op_type}\n${node.source}\n${node.layer}`, time);
    if (family.has(node.op_type)) add(found.families, family.get(node.op_type), time);
  }
  return found;
}
