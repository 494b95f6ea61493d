// A processor that runs a module on each block of samples, or says what keeps it from that.

import { load } from '/web/standalone.js';

const ASKED = {
  async run({ module, weights }) {
    const exe = await load(module, { weights });
    const [input, output] = [exe.input('x'), exe.output('result.0')];
    return (samples, result) => {
      input.set(samples);
      exe.runInPlace();
      result.set(output);
    };
  },
  async refusals({ module }) {
    const said = [];
    for (const options of [{ worker: true }, { devices: 2 }, {}, { wieghts: 1 }])
      await load(module, options).catch(({ name, message }) => said.push(`${name}: ${message}`));
    return said;
  },
};

registerProcessor(
  'model',
  class extends AudioWorkletProcessor {
    constructor({ processorOptions: { question, ...files } }) {
      super();
      ASKED[question](files).then(
        (made) => {
          if (typeof made === 'function') this.run = made;
          this.port.postMessage(this.run ? 'ready' : made);
        },
        ({ name, message, stack }) => this.port.postMessage(`${name}: ${message} ${stack}`),
      );
    }

    process([[samples]], [[result]]) {
      if (samples) this.run?.(samples, result);
      return true;
    }
  },
);
