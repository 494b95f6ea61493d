// Held-out images of examples/digits (none was trained on): a typical one of each digit, then a harder one of each.
// 64 grey values from 0 to g (16), row by row.

export const samples = [
  { label: 0, pixels: '002ce40000fcbd0004g41e6004c008800690058003c10c80008c9g30000ad300' },
  { label: 1, pixels: '000cd500000bg900003fg60007fgg200001gg300001gg600001gg600000bga00' },
  { label: 2, pixels: '00agga0004g61g2000a01g3000005f000000bb000002f400002dgc8000dfb8e7' },
  { label: 3, pixels: '019ggc100078ag9000009g40005dd30000dg8000000bg8000035ef0000agb400' },
  { label: 4, pixels: '0008f100001ed11000af3fb007g71g8009gdeg5001afge000001ga00000af400' },
  { label: 5, pixels: '003af80000ce810001g3000002g9bg3004ge9f7001400f300003c800002a8000' },
  { label: 6, pixels: '003f100000c8000003d0000004c0000005abge1002ga47a000f82c80003cg800' },
  { label: 7, pixels: '00cgggf0003428f000024bb0006fggc00056f720000ad000004g200000eb0000' },
  { label: 8, pixels: '002ce80000ddfc0005f2a60002ede100000bfd10001f3e70006d1g40001cgb00' },
  { label: 9, pixels: '007dg70002g65c1004c01g4001ccdg3000048d0000004d000083aa00006ff300' },
  { label: 0, pixels: '002cc20000agg90003gg8f3006g60d8008g40f8005g8cg6000fggf20003dc300' },
  { label: 1, pixels: '002f3000004g4000004g500000eg6000007f7000002a900000ggf9g5003fgf71' },
  { label: 2, pixels: '0003fd10002fgg2000da5f000062b8000006e200038g80003gggg8001445d600' },
  { label: 3, pixels: '00fgb300004aff300000eg500005gc000003gb100002dg90006fgc3000fe7100' },
  { label: 4, pixels: '0001d200000ce000006e000001e5000009c0c7000ce6ge1006ggg5000003e000' },
  { label: 5, pixels: '007gf400003d42000099000000e7000000dgd2000004b8000001d600006ge000' },
  { label: 6, pixels: '002bd40000cgdf0000g9130004g6e91007gggg6001ge4g8000cgdg20002ag700' },
  { label: 7, pixels: '002888c200cgeef100e90c6000a28b000002e30000098000000e4000003f0000' },
  { label: 8, pixels: '005c801000bg5d60002fgc10000ag600001fg700008ggb0000bgg900006cc300' },
  { label: 9, pixels: '000ce100009ga500008d5e00002egg4000004aa0000004g0002649g0001bgf70' },
];

/** The samples as the model takes them: values from 0 to 1. */
export const pictures = samples.map(({ pixels }) => Float32Array.from(pixels, (grey) => parseInt(grey, 17) / 16));
