/** Runs `rampart policy bench`. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { printable } from '../../../../lib/output/printable.ts';
import { printDocument } from '../../../../lib/cli/document.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';
import { renderTable, type Row } from '../../../../lib/output/table.ts';
import { measurePolicy } from '../../tools/measure-policy.ts';
import { readPolicies } from '../../tools/policy-source.ts';
import { readSubjects } from '../../tools/subjects.ts';
import type { BenchOptions } from './command.ts';
import { openMeans, settingsOf } from './means.ts';

/** @returns the exit code: 1 if a policy gives no verdict */
export async function runPolicyBench(name: string, options: BenchOptions): Promise<number> {
  const seconds = Number(options.seconds);
  if (!(seconds > 0 && seconds <= 600)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `--seconds ${options.seconds} is not a time of up to 600 s`,
    });
  }
  const policies = readPolicies(name, settingsOf(options.settings));
  const { subjects, problems } = readSubjects(options.resource);
  const [problem] = problems;
  if (problem !== undefined) throw new RampartError(errorCodes.INPUT, { what: problem });
  if (subjects.length === 0)
    throw new RampartError(errorCodes.INPUT, { what: 'there are no objects to evaluate' });
  await using means = await openMeans(options);
  const requests = subjects.map(({ request }) => request);
  const measurements: (Measured & { readonly policy: string })[] = [];
  for (const policy of policies) {
    const measured = await measurePolicy(policy.program, requests, {
      engine: means.engine,
      forMs: seconds * 1000,
    });
    measurements.push({ policy: policy.id, ...measured });
  }
  const { output } = options;
  if (output === 'json' || output === 'yaml')
    printDocument(output, 'rampart.dev/policy-bench/v1', { policies: measurements });
  else {
    const head = ['POLICY', 'RUNTIME', 'OPENED', 'FIRST', 'PER SECOND', 'P50', 'P99', 'ERRORS'];
    const table = renderTable(measurements.map(rowOf), {
      head,
      ...outputOptions(100, { isWide: output === 'wide' }),
    });
    process.stdout.write(`${table}\nOne request at a time, under the current load of this machine.\n`);
  }
  return measurements.every(({ errors }) => errors === 0) ? 0 : 1;
}

type Measured = Awaited<ReturnType<typeof measurePolicy>>;

function rowOf({ policy, runtime, ...measured }: Measured & { readonly policy: string }): Row {
  return {
    cells: [
      printable(policy),
      runtime,
      `${measured.openMs.toFixed(1)} ms`,
      `${measured.firstMs.toFixed(1)} ms`,
      String(Math.round(measured.perSecond)),
      `${measured.p50Ms.toFixed(3)} ms`,
      `${measured.p99Ms.toFixed(3)} ms`,
      String(measured.errors),
    ],
  };
}
