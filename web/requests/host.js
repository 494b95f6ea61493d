// Converters and requests, which only some modules or options need of their host: arrays that come as bytes of layouts
// or with dynamic dimensions, and what a module asks for while it runs.

import { check } from '../devices/check.js';
import { file } from '../source.js';

/**
 * @param {import('../manifest.js').Manifest} manifest
 * @param {ArrayBuffer} buffer the module's memory
 * @param {any} options of `load`
 * @returns {Promise<{converter?: import('../executor.js').Converter, serve?: (buffer: ArrayBuffer) =>
 *   import('./requests.js').Requests}>}
 */
export async function hostParts(manifest, buffer, options) {
  check(manifest);
  let converter;
  if (options.physical) converter = (await file('layouts', () => import('../arrays/layouts.js'))).physical(manifest);
  else if ([...manifest.parameters, ...manifest.results].some((leaf) => leaf.raw.sizes !== undefined))
    converter = (await file('dynamic', () => import('../arrays/dynamic.js'))).dynamic(manifest, buffer);
  const serve =
    manifest.requests.length || manifest.devices
      ? await (await file('requests', () => import('./requests.js'))).requests(manifest, options)
      : undefined;
  return { converter, serve };
}
