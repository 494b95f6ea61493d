// What manifests say of devices, checked where they say anything. Mirrors xla_wasm/host/manifest.py.

import { Fields, fail } from '../manifest.js';
import { readDevices } from './grid.js';
import { readShards } from './shards.js';

/** @typedef {import('../manifest.js').Manifest} Manifest */

/**
 * Throws ArtifactError for wrong fields that only programs for several devices have.
 * @param {Manifest} manifest
 */
export function check(manifest) {
  readDevices(manifest);
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
