// What manifests say of devices, checked where it is anything. Mirrors xla_wasm/host/manifest.py.

import { Fields, fail, show } from '../manifest.js';
import { readDevices } from './grid.js';
import { readShards } from './shards.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */

/**
 * Throws ArtifactError for wrong fields that only programs for several devices have, or that keep something.
 * @param {Manifest} manifest
 */
export function check(manifest) {
  const top = new Fields(manifest, '');
  top.get('devices');
  readDevices(manifest);
  const { stateful, undivided } = manifest;
  if (![undefined, false, true].includes(stateful)) fail('stateful', `expected true or false, got ${show(stateful)}`);
  if (undivided != null) top.text('undivided');
  /** @type {number | undefined} */
  let devices;
  for (const key of /** @type {const} */ (['parameters', 'results']))
    for (const [i, { raw }] of manifest[key].entries()) {
      const count = readShards(new Fields(raw, `${key}[${i}]`))?.starts.length;
      if (count === undefined) continue;
      devices ??= count;
      if (count !== devices) fail(`${key}[${i}].shards.starts`, `there are ${count}, others have ${devices}`);
    }
}
