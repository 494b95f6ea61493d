// Where the boxes of a directed acyclic graph go: layers by depth, an order in each with few crossings, places near
// their neighbours.

/**
 * @typedef {object} Box
 * @property {number} id
 * @property {number} width 0 for a bend of an edge
 * @property {number} layer
 * @property {number} x of its middle
 * @property {Box[]} above
 * @property {Box[]} below
 */

/**
 * @typedef {object} Placed
 * @property {Map<number, {x: number, y: number, width: number}>} places by node, of the middle of the top
 * @property {{from: number, to: number, points: [number, number][]}[]} edges
 * @property {number} width
 * @property {number} height
 */

const GAP = 18;
const BEND = 10; // room for an edge that passes a layer
const SWEEPS = 12;

/**
 * @param {{id: number, width: number, from: number[]}[]} nodes each after those it comes from
 * @param {number} boxHeight
 * @param {number} layerGap
 * @returns {Placed}
 */
export function layout(nodes, boxHeight, layerGap) {
  const boxes = new Map(
    nodes.map(({ id, width }) => [id, /** @type {Box} */ ({ id, width, layer: 0, x: 0, above: [], below: [] })]),
  );
  const box = (/** @type {number} */ id) => /** @type {Box} */ (boxes.get(id));
  /** @type {Map<number, number[]>} */
  const users = new Map(nodes.map(({ id }) => [id, []]));
  for (const { id, from } of nodes) {
    for (const source of from) {
      users.get(source)?.push(id);
      box(id).layer = Math.max(box(id).layer, box(source).layer + 1);
    }
  }
  // What comes from nothing stands just above what needs it first.
  for (const { id, from } of [...nodes].reverse()) {
    const needed = /** @type {number[]} */ (users.get(id)).map((user) => box(user).layer - 1);
    if (!from.length && needed.length) box(id).layer = Math.min(...needed);
  }
  const { layers, edges } = inLayers(nodes, box);
  for (let sweep = 0; sweep < SWEEPS; sweep++) sort(layers, sweep % 2 === 0);
  place(layers);
  const all = layers.flat();
  const left = Math.min(...all.map(({ x, width }) => x - width / 2));
  const y = (/** @type {number} */ layer) => layer * (boxHeight + layerGap);
  return {
    places: new Map(nodes.map(({ id, width }) => [id, { x: box(id).x - left, y: y(box(id).layer), width }])),
    edges: edges.map(({ from, to, path }) => ({
      from,
      to,
      points: path.flatMap((part, i) => {
        const at = /** @type {[number, number]} */ ([part.x - left, y(part.layer)]);
        const bottom = /** @type {[number, number]} */ ([at[0], at[1] + boxHeight]);
        return i === 0 ? [bottom] : i === path.length - 1 ? [at] : [at, bottom];
      }),
    })),
    width: Math.max(0, ...all.map(({ x, width }) => x + width / 2)) - left,
    height: y(layers.length) - layerGap,
  };
}

/**
 * Boxes by layer, with bends where an edge passes one.
 * @param {{id: number, from: number[]}[]} nodes
 * @param {(id: number) => Box} box
 */
function inLayers(nodes, box) {
  /** @type {Box[][]} */
  const layers = [];
  const add = (/** @type {Box} */ item) => {
    while (layers.length <= item.layer) layers.push([]);
    layers[item.layer].push(item);
    return item;
  };
  for (const { id } of nodes) add(box(id));
  const edges = [];
  for (const { id, from } of nodes) {
    for (const source of new Set(from)) {
      const path = [box(source)];
      for (let layer = box(source).layer + 1; layer < box(id).layer; layer++) {
        path.push(add({ id: -1, width: 0, layer, x: 0, above: [], below: [] }));
      }
      path.push(box(id));
      for (let i = 1; i < path.length; i++) {
        path[i].above.push(path[i - 1]);
        path[i - 1].below.push(path[i]);
      }
      edges.push({ from: source, to: id, path });
    }
  }
  return { layers, edges };
}

/**
 * Orders each layer by the middle of its neighbours in the one before.
 * @param {Box[][]} layers
 * @param {boolean} down
 */
function sort(layers, down) {
  const order = down ? layers : [...layers].reverse();
  for (const layer of layers) layer.forEach((item, i) => (item.x = i));
  for (const layer of order) {
    const middle = new Map(
      layer.map((item) => {
        const near = (down ? item.above : item.below).map(({ x }) => x).sort((a, b) => a - b);
        return [item, near.length ? (near[(near.length - 1) >> 1] + near[near.length >> 1]) / 2 : item.x];
      }),
    );
    layer.sort((a, b) => /** @type {number} */ (middle.get(a)) - /** @type {number} */ (middle.get(b)));
    layer.forEach((item, i) => (item.x = i));
  }
}

/** @param {Box[][]} layers */
function place(layers) {
  for (const layer of layers)
    spread(
      layer,
      layer.map((_, i) => i * 100),
    );
  for (let round = 0; round < 24; round++) {
    const order = round % 2 ? [...layers].reverse() : layers;
    for (const layer of order) {
      spread(
        layer,
        layer.map((item) => {
          // The last rounds look at both sides, so that neither is favoured.
          const near = round > 18 ? [...item.above, ...item.below] : round % 2 ? item.below : item.above;
          return near.length ? near.reduce((sum, { x }) => sum + x, 0) / near.length : item.x;
        }),
      );
    }
  }
}

/**
 * Gives the boxes of a layer the places nearest to those they want that leave a gap between them: neighbours that want
 * to be in the same place form a block, and a block stands where its members want it on average.
 * @param {Box[]} layer
 * @param {number[]} wanted
 */
function spread(layer, wanted) {
  /** @type {{sum: number, count: number, first: number}[]} */
  const blocks = [];
  const offsets = [0];
  for (let i = 1; i < layer.length; i++) {
    const room = (/** @type {Box} */ item) => (item.width ? item.width / 2 + GAP / 2 : BEND / 2);
    offsets.push(offsets[i - 1] + room(layer[i - 1]) + room(layer[i]));
  }
  layer.forEach((_, i) => {
    let block = { sum: wanted[i] - offsets[i], count: 1, first: i };
    while (blocks.length) {
      const last = blocks[blocks.length - 1];
      if (last.sum / last.count <= block.sum / block.count) break;
      blocks.pop();
      block = { sum: last.sum + block.sum, count: last.count + block.count, first: last.first };
    }
    blocks.push(block);
  });
  blocks.forEach(({ sum, count, first }) => {
    for (let i = first; i < first + count; i++) layer[i].x = sum / count + offsets[i];
  });
}
