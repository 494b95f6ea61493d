// Weights that come while the module does, and one after another into the same place, on the module that
// tests/web/test_poured_js.py puts into $FIXTURES.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { load } from '../../web/xla_wasm.js';

const file = (name) => readFileSync(`${process.env.FIXTURES}/${name}`);
const wasm = file('poured.wasm');
const weights = file('poured.weights');
const { x, y } = JSON.parse(file('poured.json'));
const { inits } = (await load(wasm, { weights })).manifest;
const right = (exe) => assert.deepEqual([...exe.run(Float32Array.from(x))[0]], y);

/** A server whose answers are functions of the response; gives its address and what was asked for. */
async function serve(t, answers) {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    answers[request.url](response, asked);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  t.after(() => server.closeAllConnections());
  return { base: `http://127.0.0.1:${server.address().port}`, asked };
}

const send = (response, body) => response.writeHead(200, { 'Content-Type': 'application/wasm' }).end(body);
const until = async (is) => {
  for (let i = 0; i < 500 && !is(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(is());
};

test('several constants have the same place before they are packed', async () => {
  const staged = inits.filter(({ kind }) => kind === 'sidecar').map(({ staging }) => staging);
  assert.ok(staged.length >= 5 && new Set(staged).size < staged.length - 2);
  right(await load(wasm, { weights }));
});

test('constants inside the module are brought one by one', async () => {
  const exe = await load(file('inside.wasm'));
  assert.ok(exe.manifest.inits.length >= 5 && exe.manifest.inits.every(({ kind }) => kind === 'segment'));
  right(exe);
  right(exe);
});

test('weights are asked for while the module comes', async (t) => {
  const { base } = await serve(t, {
    '/m.wasm': (response, asked) => until(() => asked.includes('/m.weights')).then(() => send(response, wasm)),
    '/m.weights': (response) => send(response, weights),
  });
  for (const given of [`${base}/m.weights`, new URL(`${base}/m.weights`), [`${base}/m.weights`]])
    right(await load(`${base}/m.wasm`, { weights: given }));
});

test('nobody goes on reading them when there is no module', async (t) => {
  let closed = 0;
  const { base, asked } = await serve(t, {
    '/none.wasm': (response) => until(() => asked.includes('/m.weights')).then(() => response.writeHead(404).end()),
    '/m.weights': (response) => {
      response.on('close', () => closed++);
      response.writeHead(200).write(weights.subarray(0, 100));
    },
  });
  await assert.rejects(load(`${base}/none.wasm`, { weights: `${base}/m.weights` }), {
    name: 'ArtifactError',
    message: /HTTP 404/,
  });
  await until(() => closed === 1);
});

test('weights that are not there', async (t) => {
  const { base, asked } = await serve(t, {
    '/m.wasm': (response) => send(response, wasm),
    '/m.weights': (response) => response.writeHead(404).end(),
  });
  await assert.rejects(load(`${base}/m.wasm`, { weights: `${base}/m.weights` }), {
    name: 'ArtifactError',
    message: /m\.weights: HTTP 404/,
  });
  assert.deepEqual(
    asked.filter((path) => path === '/m.weights'),
    ['/m.weights'],
  );
});

for (const [k, wrong] of inits.filter(({ kind }) => kind === 'sidecar').entries()) {
  test(`constant ${k} comes wrong once: it is asked for again`, async (t) => {
    const damaged = Buffer.from(weights);
    damaged[wrong.sidecar_offset + 5] ^= 1;
    const { base, asked } = await serve(t, {
      '/m.wasm': (response) => send(response, wasm),
      '/m.weights': (response, asked) =>
        send(response, asked.filter((path) => path === '/m.weights').length > 1 ? weights : damaged),
    });
    right(await load(`${base}/m.wasm`, { weights: `${base}/m.weights` }));
    assert.equal(asked.length, 3);
    await assert.rejects(load(wasm, { weights: damaged }), {
      name: 'ArtifactError',
      message: new RegExp(`weights of '${wrong.name}' are not those`),
    });
  });
}
