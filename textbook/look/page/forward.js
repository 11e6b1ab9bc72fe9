// The models of chapter 10 in JavaScript. A matrix is a list of rows, a row a token; `weights` are
// those of the state dict. Every function keeps what it computes, so that the page can show it.
const dot = (a, b) => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
};
const plus = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));
const mixture = (weights, rows) => Array.from(rows[0], (_, c) =>
  weights.reduce((sum, weight, j) => sum + weight * rows[j][c], 0));

function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / total);
}

class Model {
  constructor({ kind, heads, causal, weights }) {
    Object.assign(this, { kind, heads, causal, weights: tensors(weights) });
  }

  linear(name, rows) {
    const [weight, bias] = [this.weights[`${name}.weight`], this.weights[`${name}.bias`]];
    return rows.map((row) => weight.map((w, j) => dot(row, w) + (bias ? bias[j] : 0)));
  }

  norm(name, rows) {
    const [gain, bias] = [this.weights[`${name}.weight`], this.weights[`${name}.bias`]];
    return rows.map((row) => {
      const mean = row.reduce((a, b) => a + b) / row.length;
      const variance = row.reduce((sum, x) => sum + (x - mean) ** 2, 0) / row.length;
      return row.map((x, j) => (x - mean) / Math.sqrt(variance + 1e-5) * gain[j] + bias[j]);
    });
  }

  // The vector of each token plus the code of its place (chapter 08).
  embedded(numbers) {
    return numbers.map((number, t) => {
      const vector = this.weights["embedded.embedding.weight"][number];
      return Array.from(vector, (x, c) => {
        const angle = t * 10000 ** (-(c - c % 2) / vector.length);
        return x + (c % 2 ? Math.cos(angle) : Math.sin(angle));
      });
    });
  }

  // Rows of x ask, rows of memory answer, where allowed(i, j); a head that is off passes on zeros.
  attention(name, x, memory, allowed, off) {
    const Q = this.linear(`${name}.query`, x);
    const [K, V] = [this.linear(`${name}.key`, memory), this.linear(`${name}.value`, memory)];
    const size = Q[0].length / this.heads;
    const heads = times(this.heads, (h) => {
      const [q, k, v] = [Q, K, V].map((rows) =>
        rows.map((row) => row.slice(h * size, (h + 1) * size)));
      const scores = q.map((a) => k.map((b) => dot(a, b) / Math.sqrt(size)));
      const masked = scores.map((row, i) => row.map((s, j) => allowed(i, j) ? s : -Infinity));
      const weights = masked.map(softmax);
      const on = off.has(`${name} ${h}`) ? 0 : 1;
      return { q, k, v, scores, masked, weights, mixed: weights.map((row) =>
        mixture(row, v).map((x) => on * x)) };
    });
    const joined = x.map((_, i) => heads.flatMap((head) => head.mixed[i]));
    return { name, heads, joined, output: this.linear(`${name}.out`, joined) };
  }

  // A block: its attentions, then its network; each reads the norm and adds to the stream.
  block(name, x, memory, allowed, off) {
    const parts = [];
    const attend = (which, norm, memory, allowed) => {
      const normed = this.norm(`${name}.${norm}`, x);
      const looked = this.attention(`${name}.${which}`, normed, memory ?? normed, allowed, off);
      parts.push({ before: x, normed, ...looked });
      x = plus(x, looked.output);
    };
    attend("attention", "norm_1", null, allowed);
    if (memory) attend("cross", "norm_3", memory, () => true);
    const network = { before: x, normed: this.norm(`${name}.norm_2`, x) };
    network.hidden = this.linear(`${name}.feed_forward.up`, network.normed)
      .map((row) => row.map((h) => Math.max(h, 0)));
    network.output = this.linear(`${name}.feed_forward.down`, network.hidden);
    return { parts, network, after: plus(x, network.output) };
  }

  // All blocks of a stack, one after the other, and the norm of what the last gives.
  stack(name, norm, numbers, memory, allowed, off) {
    const embedded = this.embedded(numbers), blocks = [];
    let x = embedded;
    for (let l = 0; `${name}.${l}.norm_1.weight` in this.weights; l++) {
      blocks.push(this.block(`${name}.${l}`, x, memory, allowed, off));
      x = blocks[l].after;
    }
    return { embedded, blocks, normed: this.norm(norm, x) };
  }

  // Scores of the token after each token, and all that led there.
  run(source, target, { masked, off }) {
    const past = (i, j) => !masked || j <= i;
    if (this.kind === "OneStack") {
      const only = this.stack("blocks", "norm", source, null, this.causal ? past : () => true, off);
      return { source: only, scores: this.linear("out", only.normed) };
    }
    const encoder = this.stack("encoder", "encoder_norm", source, null, () => true, off);
    const decoder = this.stack("decoder", "decoder_norm", target, encoder.normed, past, off);
    return { source: encoder, target: decoder, scores: this.linear("out", decoder.normed) };
  }
}

// The tensors of a safetensors file: eight bytes say how long the header is, which says the places.
function tensors(text) {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt());
  const start = 8 + new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
  delete header.__metadata__;
  return Object.fromEntries(Object.entries(header).map(([name, { shape, data_offsets }]) => {
    const [first, last] = data_offsets, [rows, columns] = shape;
    const numbers = new Float32Array(bytes.slice(start + first, start + last).buffer);
    return [name, columns === undefined ? numbers
      : times(rows, (i) => numbers.subarray(i * columns, (i + 1) * columns))];
  }));
}
