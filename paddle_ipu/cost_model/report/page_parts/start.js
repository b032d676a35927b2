// Reads the report that the page carries and draws every view.

const report = JSON.parse(document.getElementById("data").textContent);

function start() {
  const nodes = nodesOf(report);
  const lines = new Map(nodes.map(node => [node.name, node]));
  chooseFolder(nodes.map(node => node.source));
  const sectionOf = name => document.getElementById(name);
  const views = {
    summary: summaryView, insights: insightsView, memory: memoryView,
    liveness: (found, section) => livenessView(found, section, lines), timeline: timelineView,
    roofline: rooflineView, sources: sourcesView,
    ...report.measured ? { measured: (found, section) => measuredView(found, section, nodes) } : {},
  };
  for (const [name, view] of Object.entries(views)) view(report, sectionOf(name));
  const showOperators = operatorsView(report, sectionOf("operators"), nodes);
  if (sectionOf("layers")) layersView(report, sectionOf("layers"), nodes, showOperators);
}

start();
