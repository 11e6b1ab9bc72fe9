// The way of one token through a block: each step with its shape, its numbers on demand, and the
// chapter that built it. Steps are [name, what happens, chapter, rows, words of rows or columns].
function steps() {
  const { side, keys, queries } = stack();
  const block = trace[side].blocks[here.layer];
  const { before, normed, heads, joined, output } = part();
  const { q, k, v, scores, masked, weights, mixed } = heads[here.head];
  const i = here.query, { network } = block;
  const across = part() === block.parts[0] && block.parts[1];
  const last = block === trace[side].blocks.at(-1);
  const found = [
    ["residual stream", "x, as it comes to the attention", 9, [before[i]]],
    ["norm", "mean 0 and variance 1, then gain and bias", 9, [normed[i]]],
    ["query", "norm(x) Q, the columns of this head", 6, [q[i]]],
    ["keys", "a row for each word that can be looked at", 6, k, keys],
    ["scores", "query times key, divided by √(d/h)", 5, [scores[i]], keys],
    ["mask", "where the query may not look: −∞", 7, [masked[i]], keys],
    ["softmax", "weights: not negative, together 1", 5, [weights[i]], keys],
    ["values", "a row for each word, what it hands over", 6, v, keys],
    ["mixed values", "weights times values", 5, [mixed[i]]],
    ["heads side by side", "the mixed values of all heads", 6, [joined[i]]],
    ["output", "times W_O", 6, [output[i]]],
    ["residual stream", "x + output", 9, plus([before[i]], [output[i]])],
    ...(across ? [["cross-attention", "adds this: choose it above", 10, [across.output[i]]]] : []),
    ["norm", "before the network", 9, [network.normed[i]]],
    ["feed-forward, hidden", "ReLU(norm(x) W₁ + b₁)", 9, [network.hidden[i]]],
    ["feed-forward, output", "hidden W₂ + b₂", 9, [network.output[i]]],
    ["residual stream", last ? "x + output" : `x + output: on to layer ${here.layer + 2}`, 9,
      [block.after[i]]],
  ];
  if (last) found.push(["last norm", "after the last block", 10, [trace[side].normed[i]]]);
  if (last && side === written()) found.push(
    ["logits", "a score for each token of the vocabulary", 10, [trace.scores[i]], vocabulary],
    ["probabilities", `softmax of logits / ${knobs.temperature.toFixed(1)}`, 11,
      [probabilities(trace.scores[i], knobs.temperature)], vocabulary]);
  return found;
}

const shown = (x) => x === -Infinity ? "−∞" : x.toFixed(3).replace("-", "−");

// Rows as colours: blue above zero, orange below, full at the largest.
function strip(rows) {
  const most = Math.max(...rows.flat().map(Math.abs).filter(Number.isFinite), 1e-9);
  return `<svg class="strip" viewBox="0 0 ${rows[0].length} ${rows.length}"
    preserveAspectRatio="none" width="${20 * rows[0].length}" height="${8 + 6 * rows.length}">` +
    rows.map((row, i) => row.map((x, j) => !Number.isFinite(x) ? "" : `<rect x="${j}" y="${i}"
      width="1" height="1" class="${x < 0 ? "below" : "cell"}"
      fill-opacity="${(Math.abs(x) / most).toFixed(2)}"/>`).join("")).join("") + "</svg>";
}

function numbers(rows, words) {
  const cell = (x, word) => `<span>${word ? `<em>${visible(word)}</em> ` : ""}${shown(x)}</span>`;
  const line = (row, i) => rows.length > 1
    ? `<p><em>${visible(words[i])}</em> ${row.map((x) => cell(x)).join(" ")}</p>`
    : `<p>${row.map((x, j) => cell(x, words?.[j])).join(" ")}</p>`;
  return rows.map(line).join("");
}

const shape = (rows) => (rows.length > 1 ? `${rows.length}, ` : "") + rows[0].length;

function chapter(number) {
  const name = `chapter ${String(number).padStart(2, "0")}`;
  const address = data.chapters?.[number];
  return address ? `<a href="${address}" target="_top">${name}</a>` : name;
}

function drawWay() {
  const open = new Set([...document.querySelectorAll("#way details[open]")].map((step) => step.id));
  element("way").innerHTML = `<h2>The way of <b>${visible(stack().queries[here.query])}</b> through
    layer ${here.layer + 1}, by head ${here.head + 1}</h2>` +
    steps().map(([name, text, number, rows, words], s) => `
      <details id="step-${s}" ${open.has(`step-${s}`) ? "open" : ""}>
        <summary><span class="name">${name}</span>
          <span class="text">(${shape(rows)}) ${text}</span>${strip(rows)}</summary>
        <div class="numbers">${numbers(rows, words)}</div>
        <p class="hint">built in ${chapter(number)}</p>
      </details>`).join("");
}
