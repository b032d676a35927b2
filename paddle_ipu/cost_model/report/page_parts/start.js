// Reads the report that the page carries and draws every view.

const report = JSON.parse(document.getElementById("data").textContent);

function start() {
  const nodes = nodesOf(report);
  const lines = new Map(nodes.map(node => [node.name, node]));
  chooseFolder(nodes.map(node => node.source));
  const views = {
    summary: summaryView, insights: insightsView, memory: memoryView,
    liveness: (found, section) => livenessView(found, section, lines), timeline: timelineView,
    operators: (found, section) => operatorsView(found, section, nodes), roofline: rooflineView,
    ...report.measured ? { measured: (found, section) => measuredView(found, section, nodes) } : {},
  };
  for (const [name, view] of Object.entries(views))
    view(report, document.getElementById(name));
}

start();
