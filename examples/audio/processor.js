// The audio thread's side: a block of 128 samples at a time, through the model's own memory. Nothing is allocated in
// process(), so nothing has to be collected there.

import { load } from './model.js';

class Room extends AudioWorkletProcessor {
  static parameterDescriptors = [
    { name: 'wet', defaultValue: 0.4, minValue: 0, maxValue: 1, automationRate: 'k-rate' },
  ];

  constructor({ processorOptions: { module } }) {
    super();
    load(module).then(
      (model) => {
        this.samples = model.input('samples');
        this.wet = model.input('wet');
        this.sound = model.output('sound');
        this.model = model;
        this.port.postMessage('ready');
      },
      (error) => this.port.postMessage(error.message),
    );
  }

  process([[samples]], [[sound]], { wet }) {
    if (!this.model) return true;
    if (samples) this.samples.set(samples);
    else this.samples.fill(0);
    this.wet[0] = wet[0];
    this.model.runInPlace();
    sound.set(this.sound);
    return true;
  }
}

registerProcessor('room', Room);
