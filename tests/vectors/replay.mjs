/** Replays guided.json and other cases with the browser's modules; used in node and, as text, inside chromium. */

export async function replay(perturb, recompute, cases) {
  const hexadecimal = (value) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, value);
    return view.getBigUint64(0).toString(16).padStart(16, "0");
  };
  const found = [];
  for (const given of cases) {
    const space = perturb.answerSpace(given.sizes, given.blank);
    const message = { v: given.V, sha256: given.sha256, width: space.width, k: given.k };
    const guidance = await perturb.readGuidance(message, space.width, given.k);
    const ones = perturb.oneHot(space, given.answers);
    const random = Uint8Array.from(given.random.match(/../g), (byte) => parseInt(byte, 16));
    const bits = perturb.drawBits(ones, guidance, given, perturb.uniformsFromBytes(random));
    const epsilon = perturb.epsilon(guidance, space, given);
    const result = { ones, bits, epsilon: Number.isFinite(epsilon) ? epsilon : null };
    result.probabilities = Array.from(perturb.bitProbabilities(ones, guidance, given), hexadecimal);
    if (!given.blank) {
      result.most = perturb.mostCertain(ones, guidance, space, given);
      result.told = perturb.posteriors(ones, bits, guidance, space, given).map((row, a) => row[given.answers[a]]);
    }
    if (given.inputs) {
      const startup = await recompute.startupCounts(given.survey, given.hash);
      const recomputed = new recompute.Recomputed(given.inputs, startup, given.survey);
      recomputed.check(guidance);
      if (space.width < 8) result.usual = perturb.usuallyCertain(ones, guidance, space, given, 4000);
      result.sigmas = recomputed.values;
      result.projection = projection(recomputed.guidance(given.k));
    }
    found.push(result);
  }
  return found;

  function projection({ V, width, k }) {
    return Array.from({ length: width * width }, (_, at) => {
      const [i, j] = [Math.floor(at / width), at % width];
      let sum = 0;
      for (let c = 0; c < k; c++) sum += V[i * k + c] * V[j * k + c];
      return sum;
    });
  }
}

if (globalThis.process?.argv?.[2]) {
  const folder = new URL(`file://${process.argv[2]}/`);
  const modules = await Promise.all(["perturb.js", "recompute.js"].map((name) => import(new URL(name, folder))));
  let text = "";
  for await (const piece of process.stdin) text += piece;
  console.log(JSON.stringify(await replay(...modules, JSON.parse(text))));
}
