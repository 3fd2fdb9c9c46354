/** Runs `rampart network explain`. */
import { networkInterfaces } from 'node:os';

import { KubeClient } from '../../../lib/kube/client/client.ts';
import { printable, visibleJson } from '../../../lib/output/printable.ts';
import { paint, wrapText, type RenderOptions } from '../../../lib/output/table.ts';
import { type ExplainedEnd, type Explanation, explain } from '../explain/explanation.ts';
import { compareWithKernel, type KernelCheck } from '../explain/kernel-check.ts';
import { checkEnd, parsePort } from '../explain/question.ts';
import { readCluster } from '../explain/read-cluster.ts';
import { readKernel } from '../explain/read-kernel.ts';
import { KeptNamespace } from '../node/namespace.ts';
import { readOtherRules } from '../node/other-rules.ts';
import { chosenKubeconfig, clusterAccess } from '../../../lib/cli/cluster.ts';
import { describeFailure } from '../../../lib/cli/failure.ts';
import { stopSignal } from '../../../lib/cli/process.ts';
import type { ExplainOptions } from './command.ts';
import { outputOptions } from '../../../lib/cli/output.ts';

const INDENT = '    ';

/** @returns the exit code: 0 allowed, 1 refused, 2 unknown, with the reason on stderr. */
export async function runExplain(options: ExplainOptions): Promise<0 | 1 | 2> {
  try {
    const { signal } = stopSignal();
    const explanation = await ask(options, signal);
    const kernel = options.kernel === true ? await askKernel(explanation, signal) : undefined;
    const { stdout } = process;
    stdout.write(
      options.output === 'json'
        ? `${visibleJson(JSON.stringify({ schema: 'rampart.dev/network-explain/v1', ...explanation, ...(kernel && { kernel }) }))}\n`
        : render(explanation, kernel, outputOptions(80, 120)),
    );
    if (kernel !== undefined && kernel.result !== 'agrees') return 2;
    return explanation.allowed ? 0 : 1;
  } catch (error) {
    // Also if the API is unavailable: a script must be able to tell this from a refusal.
    process.stderr.write(describeFailure(error).text);
    return 2;
  }
}

async function ask(options: ExplainOptions, signal: AbortSignal): Promise<Explanation> {
  const question = {
    from: checkEnd('--from', options.from),
    to: checkEnd('--to', options.to),
    ...parsePort(options.port),
  };
  using client = new KubeClient(clusterAccess(chosenKubeconfig(options)));
  return explain(await readCluster(client, signal), question);
}

async function askKernel(explanation: Explanation, signal: AbortSignal): Promise<KernelCheck> {
  using namespace = new KeptNamespace();
  const [rulesets, others] = [await readKernel(signal), await readOtherRules(namespace, signal)];
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address)),
  );
  return compareWithKernel(explanation, rulesets, others, (address) => own.has(address));
}

export function render(
  explanation: Explanation,
  kernel: KernelCheck | undefined,
  { widthColumns, colour }: RenderOptions,
): string {
  const { allowed, from, to, protocol, port, egress, ingress, problems } = explanation;
  const indented = (text: string): string[] =>
    wrapText(printable(text), widthColumns - INDENT.length).map((line) => INDENT + line);
  const verdict = allowed ? paint('green', 'allowed', colour) : paint('red', 'refused', colour);
  const lines = [
    `${endText(from)} -> ${endText(to)} ${port === undefined ? protocol : `${port}/${protocol}`}: ${verdict}`,
  ];
  for (const side of [egress, ingress]) {
    const own = side.direction === 'egress' ? from : to;
    lines.push('', `${side.direction} of ${printable(own.pod ?? own.address)}: ${side.verdict}`);
    lines.push(...indented(side.words));
    const checked = kernel?.[side.direction];
    if (checked !== undefined) lines.push(...indented(checked.words));
    if (checked !== undefined && checked.chains.length > 0)
      lines.push(...indented(`Chains: ${checked.chains.join(', ')}`));
  }
  if (kernel !== undefined && kernel.others.length > 0) {
    lines.push('', 'Other rules in this kernel:');
    for (const words of kernel.others) lines.push(...indented(words));
  }
  if (problems.length > 0) {
    lines.push('', 'Parts of these policies that cannot be expressed and allow nothing:');
    for (const { policy, field, message } of problems)
      lines.push(...indented(`${policy} ${field}: ${message}`));
  }
  return `${lines.join('\n')}\n`;
}

function endText({ pod, address }: ExplainedEnd): string {
  return printable(pod === undefined ? address : `${pod} (${address})`);
}
