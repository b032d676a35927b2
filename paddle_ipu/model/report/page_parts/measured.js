// What XLA's program took on this machine: beside the prediction, in a section of its own.

function measuredView(report, section) {
  const { measured } = report, families = measured.families ?? [], lines = measured.lines ?? [];
  section.append(h("dl", { class: "facts" },
    [["machine", measured.machine], ["runs measured", measured.steps],
      ["time of a run", seconds(measured.seconds_per_run)]]
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))])));
  for (const [name, rows, label] of [["By family of operators", families, "family"],
    ["By line", lines, "line"]]) {
    if (!rows.length) continue;
    const ordered = [...rows].sort((a, b) => b.seconds - a.seconds);
    section.append(h("h3", {}, name), h("div", { class: "scroll" }, h("table", {},
      heads([label, "#measured on this machine", "#of the run"]),
      h("tbody", {}, ordered.slice(0, 200).map(row => h("tr", {},
        label === "line" ? lineCell(row.line ?? row.source ?? "") : cell(row.family),
        cell(seconds(row.seconds), true),
        cell(percent(row.seconds / measured.seconds_per_run), true)))))));
  }
}
