// Knobs: whenever one is turned, the page computes the model anew and shows what follows.
const model = new Model(data.model);
const { vocabulary } = data.model;
const between = vocabulary.some((token) => /^[^<]./.test(token)) ? " " : "";  // words or characters
const untouched = { temperature: 1, masked: true, off: [] };
let begun, knobs, trace, scoresBefore, taken;

function compute() {
  const { source, target, masked, off } = knobs;
  const numbers = (words) => words?.map((word) => Math.max(0, vocabulary.indexOf(word)));
  trace = model.run(numbers(source), numbers(target), { masked, off: new Set(off) });
  const made = (name, queries, keys, side, which) => {
    const parts = trace[side].blocks.map((block) => block.parts[which]);
    const layers = parts.map((part) => ({ heads: part.heads.map((head) => head.weights) }));
    return { name, queries, keys, side, parts, layers };
  };
  stacks = target ? [
    made("self-attention, source", source, source, "source", 0),
    made("self-attention, target", target, target, "target", 0),
    made("cross-attention", target, source, "target", 1),
  ] : [made("self-attention", source, source, "source", 0)];
}

const part = () => stack().parts[here.layer];
const nameOf = (layer, head) => `${stack().parts[layer].name} ${head}`;
const written = () => knobs.target ? "target" : "source";
// The place whose next token is shown: the chosen query, or the last where that is not written.
const place = () => stack().side === written() ? here.query : knobs[written()].length - 1;
const probabilities = (scores, temperature) => softmax(scores.map((score) => score / temperature));

function turn(change) {
  knobs = { ...knobs, ...change };
  compute();
  drawSentences();
  drawMaps();
  choose({});
}

// Other words, and all knobs as they were.
function begin(words) {
  begun = knobs = { ...untouched, ...words };
  taken = null;
  element("words").value = begun.source.join(between);
  compute();
  scoresBefore = trace.scores;
  turn({});
}

function drawSentences() {
  const focused = document.activeElement.id;
  const chip = (side, word, i) => `<button id="${side}-${i}" data-side="${side}" data-place="${i}"
    aria-pressed="${taken?.side === side && taken.place === i}">${visible(word)}</button>`;
  const chips = (side) => knobs[side].map((word, i) => chip(side, word, i)).join("");
  element("sentences").innerHTML = ["source", "target"].filter((side) => knobs[side])
    .map((side) => `<p>${chips(side)}</p>`).join("");
  element(focused)?.focus();
}

// One word, then another of the same line: they change places.
element("sentences").addEventListener("click", (event) => {
  const chip = event.target.closest("button");
  if (!chip) return;
  const [side, at] = [chip.dataset.side, Number(chip.dataset.place)];
  const first = taken?.side === side ? taken.place : null;
  taken = first === null ? { side, place: at } : null;
  if (first === null) return drawSentences();
  const words = [...knobs[side]];
  [words[first], words[at]] = [words[at], words[first]];
  turn({ [side]: words });
});

element("temperature").addEventListener("input", (event) =>
  turn({ temperature: Number(event.target.value) }));
element("masked").addEventListener("change", (event) => turn({ masked: event.target.checked }));
element("masked").parentElement.hidden = !data.target && !model.causal;
element("off").addEventListener("change", () => {
  const name = nameOf(here.layer, here.head);
  const others = knobs.off.filter((other) => other !== name);
  turn({ off: others.length < knobs.off.length ? others : [...others, name] });
});
element("say").addEventListener("click", () => {
  const scores = trace.scores.at(-1), words = [...knobs[written()], vocabulary[largest(scores)]];
  turn({ [written()]: words });
  choose({ query: words.length - 1 });
});
element("reset").addEventListener("click", () => begin(begun));
element("words").addEventListener("input", () => element("words").setCustomValidity(""));
element("typed").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = element("words").value;
  const source = between ? typed.trim().split(/\s+/) : typed.match(/<\w+>|[^]/g) ?? [""];
  const unknown = source.filter((word) => !vocabulary.includes(word));
  if (unknown.length) {
    element("words").setCustomValidity(`not in the vocabulary: ${unknown.join(between)}`);
    element("words").reportValidity();
  } else begin({ source, target: data.target?.slice(0, 1) });
});

// The likeliest tokens after the chosen place, and a mark where each stood before any knob.
function drawNext() {
  const i = place(), now = probabilities(trace.scores[i], knobs.temperature);
  const before = scoresBefore[i] && probabilities(scoresBefore[i], 1);
  const best = now.map((_, token) => token).sort((a, b) => now[b] - now[a]).slice(0, 6);
  element("next").innerHTML = `<p>after <b>${visible(knobs[written()][i])}</b> comes</p>` +
    best.map((token) => `<span>${visible(vocabulary[token])}</span>
      <span class="number" data-token="${token}">${now[token].toFixed(3)}</span>
      <span class="track"><i style="width: ${100 * now[token]}%"></i>
      ${before ? `<s style="left: ${100 * before[token]}%"></s>` : ""}</span>`).join("");
}

document.addEventListener("chosen", () => {
  const name = nameOf(here.layer, here.head);
  element("off").checked = knobs.off.includes(name);
  element("off").nextSibling.data = ` head ${here.head + 1} of layer ${here.layer + 1} off`;
  element("temperature").value = knobs.temperature;
  element("degrees").textContent = knobs.temperature.toFixed(1);
  element("masked").checked = knobs.masked;
  element("say").disabled = knobs[written()].at(-1) === "</s>";
  for (const map of document.querySelectorAll("#maps svg")) {
    const { layer, head } = map.dataset;
    map.classList.toggle("off", knobs.off.includes(nameOf(layer, head)));
  }
  drawNext();
  drawWay();
});

begin({ source: data.source, target: data.target });
start();
