// The types of models, as the JavaScript that `xla-wasm compile --js` writes has them: executables whose inputs, results
// and weights have names. xla_wasm.js exports them; there is no code behind this file.

import type { ReplicatedOptions } from './devices/replicated.js';
import type { RunOptions } from './executor.js';
import type { Manifest } from './manifest.js';

/** The structures of the function that a model was lowered from. */
export interface Structure {
  /** what `call` takes, in order or in one object */
  arguments: any[];
  /** what `run` takes beside arrays by their full names: the arguments by name */
  inputs: unknown;
  /** what `run` takes in order: the arguments, or an array for each input */
  ordered: any[];
  /** what `call` gives */
  returned: unknown;
  /** what `set` takes for a name that those of weights and states begin with */
  held: object;
}

/** The structure of a model that none is known of. */
export type AnyStructure = { arguments: any[]; inputs: never; ordered: any[]; returned: any; held: {} };

/** The weights and states whose names begin with one, by what follows. */
export type Below<Held, Name> = {
  [Key in keyof Held as Key extends `${Name & string}.${infer Rest}` ? Rest : never]: Held[Key];
};

/** What `set` takes for a name. */
export type Settable<Held, Trees, Name> = Name extends keyof Held
  ? Held[Name]
  : Name extends keyof Trees
    ? Trees[Name] | Below<Held, Name>
    : never;

/** What `get` gives for a name. */
export type Gettable<Held, Trees, Name> = Name extends keyof Held
  ? Held[Name]
  : Name extends keyof Trees
    ? Trees[Name]
    : Below<Held, Name>;

/** The arguments of the function that a model was lowered from, and perhaps options behind them. */
export type CallArguments<Trees extends Structure, Options> = Trees['arguments'] | [...Trees['arguments'], Options];

/** What a model is run on, by name or in order, and perhaps options behind it. */
export type RunArguments<Inputs, Trees extends Structure, Options = never> =
  | [inputs: Inputs | Trees['inputs'], options?: Options]
  | [...Trees['ordered'], options?: Options];

/** The names that `set` and `get` take. */
export type HeldName<Held, Trees extends Structure> = keyof Held | keyof Trees['held'];

/** A model loaded with the option `named`, as the JavaScript of `xla-wasm compile --js` gives it. */
export interface Model<Inputs, Results, Held, Trees extends Structure = AnyStructure> {
  /** runs the model on its inputs, by name or in order, and gives the results by name */
  run: (...values: RunArguments<Inputs, Trees, Omit<RunOptions, 'signal' | 'named'>>) => Results;
  /** the same, with pauses; may be ended by a signal */
  runAsync: (...values: RunArguments<Inputs, Trees, Omit<RunOptions, 'named'>>) => Promise<Results>;
  /** takes the arguments of the function that the model was lowered from, and gives what that returns */
  call: (...values: CallArguments<Trees, Omit<RunOptions, 'signal' | 'named' | 'out'>>) => Trees['returned'];
  /** the same, with pauses */
  callAsync: (...values: CallArguments<Trees, Omit<RunOptions, 'named' | 'out'>>) => Promise<Trees['returned']>;
  /** sets a weight, or the state that the next run begins with */
  set: <K extends HeldName<Held, Trees>>(name: K, value: Settable<Held, Trees['held'], K>) => void;
  /** gives a copy of a weight or a state */
  get: <K extends HeldName<Held, Trees>>(name: K) => Gettable<Held, Trees['held'], K>;
  /** the memory of an input, to be written before a run */
  input: <K extends keyof Inputs>(name: K) => Extract<Inputs[K], ArrayBufferView>;
  /** the memory of a result, to be read until the next call */
  output: <K extends keyof Results>(name: K) => Results[K];
  /** runs the model on what lies in the memory of its inputs; allocates nothing */
  runInPlace: () => void;
  /** instruction and seconds of every step of a run, loops summed */
  profile: (...values: RunArguments<Inputs, Trees>) => [string, number][];
  /** lets go of the model and its memory */
  dispose: () => void;
  /** what the artifact says of itself: its name, parameters, results, memory */
  manifest: Manifest;
}

/** The same in a worker. */
export interface RemoteModel<Inputs, Results, Held, Trees extends Structure = AnyStructure> {
  /** runs the model on its inputs, by name or in order, and gives the results by name */
  run: (...values: RunArguments<Inputs, Trees, Omit<RunOptions, 'out' | 'named'>>) => Promise<Results>;
  /** the same */
  runAsync: (...values: RunArguments<Inputs, Trees, Omit<RunOptions, 'out' | 'named'>>) => Promise<Results>;
  /** takes the arguments of the function that the model was lowered from, and gives what that returns */
  call: (...values: CallArguments<Trees, Omit<RunOptions, 'out' | 'named'>>) => Promise<Trees['returned']>;
  /** the same */
  callAsync: (...values: CallArguments<Trees, Omit<RunOptions, 'out' | 'named'>>) => Promise<Trees['returned']>;
  /** sets a weight, or the state that the next run begins with */
  set: <K extends HeldName<Held, Trees>>(name: K, value: Settable<Held, Trees['held'], K>) => Promise<void>;
  /** gives a copy of a weight or a state */
  get: <K extends HeldName<Held, Trees>>(name: K) => Promise<Gettable<Held, Trees['held'], K>>;
  /** instruction and seconds of every step of a run, loops summed */
  profile: (...values: RunArguments<Inputs, Trees>) => Promise<[string, number][]>;
  /** ends the worker */
  dispose: () => void;
  /** what the artifact says of itself: its name, parameters, results, memory */
  manifest: Manifest;
}

/** The same on several devices. */
export interface ReplicatedModel<Inputs, Results, Held, Trees extends Structure = AnyStructure> {
  /** runs the model on the inputs of each device, and gives the results of each */
  runReplicated: (
    lists: (Inputs | Trees['inputs'] | any[])[],
    options?: Omit<ReplicatedOptions, 'named'>,
  ) => Promise<Results[]>;
  /** runs the model on whole arrays, of which each device gets its part */
  runGlobal: (...values: RunArguments<Inputs, Trees, Omit<ReplicatedOptions, 'named'>>) => Promise<Results>;
  /** takes the arguments of the function that the model was lowered from, and gives what that returns */
  call: (...values: CallArguments<Trees, Omit<ReplicatedOptions, 'named'>>) => Promise<Trees['returned']>;
  /** sets a weight or a state, on all devices or on one */
  set: <K extends HeldName<Held, Trees>>(
    name: K,
    value: Settable<Held, Trees['held'], K>,
    device?: number,
  ) => Promise<void>;
  /** gives a copy of a weight or a state, of all devices or of one */
  get: <K extends HeldName<Held, Trees>>(name: K, device?: number) => Promise<Gettable<Held, Trees['held'], K>>;
  /** ends the workers */
  dispose: () => void;
  /** how many replicas and partitions there are */
  devices: { replicas: number; partitions: number; count: number };
  /** how devices exchange data */
  transport: 'shared' | 'messages';
  /** what the artifact says of itself: its name, parameters, results, memory */
  manifest: Manifest;
}
