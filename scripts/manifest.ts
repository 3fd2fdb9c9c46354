/**
 * `npm run manifest -- --image NAME`: deploy/ as one file, `rampart.yaml`, for `kubectl apply -f`. The same objects as
 * `kubectl kustomize` makes of an overlay with the same components, for kubectl of any version.
 */
import { writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { stringify } from 'yaml';

import { guards as allGuards } from '../apps/guards.ts';
import { errorCodes, messageOf, RampartError } from '../lib/errors/errors.ts';
import manifest from '../package.json' with { type: 'json' };
import { chosenOf, type DeployChoice, extras, objectsOf, parsedImage } from './deploy-choice.ts';
import { kustomizeOf, type Manifest } from './kustomize.ts';

const deploy = join(dirname(import.meta.dirname), 'deploy');

const help = `Usage: npm run manifest -- --image NAME [options]

Writes the manifests of Rampart as one file for kubectl apply -f.

  --image NAME    the image of the agent and the operator; without a tag: ${manifest.version}
  --guards NAMES  the guards to install, default all:
                  ${allGuards.map(({ name }) => name).join(', ')}
  --with NAMES    what else, as described in deploy/README.md:
                  ${extras.join(',\n                  ')}
  --uninstall     instead write the Job that removes Rampart
  --output FILE   default: rampart.yaml, with --uninstall rampart-uninstall.yaml; -: standard output
`;

/** Dependencies of others come first, as kustomize sorts (its SortOrderTransformer). */
const first: readonly string[] = [
  ...['Namespace', 'CustomResourceDefinition', 'ServiceAccount', 'Role', 'ClusterRole', 'RoleBinding'],
  ...['ClusterRoleBinding', 'ConfigMap', 'Service'],
];

/** The text of the file. @throws {RampartError} `INPUT` for an image that is no reference. */
export function manifestText(choice: DeployChoice): string {
  return textOf(objectsOf(choice, deploy));
}

/** The text of the file with the Job that removes Rampart. @throws {RampartError} `INPUT` for an image that is no reference. */
export function uninstallText(image: string): string {
  const images = [{ name: 'rampart', ...parsedImage(image) }];
  return textOf(kustomizeOf({ resources: ['uninstall'], images }, deploy));
}

function textOf(objects: readonly Manifest[]): string {
  const place = ({ kind }: Manifest): number => {
    const at = first.indexOf(kind);
    return at < 0 ? first.length : at;
  };
  return objects
    .toSorted((one, other) => place(one) - place(other))
    .map((object) =>
      stringify(object, {
        ...{ lineWidth: 0, singleQuote: true, aliasDuplicateObjects: false },
        // kubectl reads YAML 1.1.
        compat: 'yaml-1.1',
      }),
    )
    .join('---\n');
}

/**
 * The command's action.
 *
 * @throws {RampartError} `INPUT`, {TypeError} for unknown options
 */
export function manifestCommand(given: readonly string[]): void {
  const { values } = parseArgs({
    args: [...given],
    options: {
      image: { type: 'string' },
      guards: { type: 'string', multiple: true },
      with: { type: 'string', multiple: true },
      uninstall: { type: 'boolean' },
      output: { type: 'string' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return void process.stdout.write(help);
  const { image = '', uninstall = false } = values;
  if (image === '') {
    throw new RampartError(errorCodes.INPUT, {
      what: '--image is missing',
      next: 'Name an image that all nodes can pull, such as registry.example/rampart:0.1.0',
    });
  }
  if (uninstall && (values.guards ?? values.with) !== undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: '--uninstall removes all that there is',
      next: 'Leave out --guards and --with',
    });
  }
  const words = (texts: readonly string[] = []): string[] => texts.flatMap((text) => text.split(','));
  const names = allGuards.map(({ name }) => name);
  const text = uninstall
    ? uninstallText(image)
    : manifestText({
        image,
        guards: values.guards === undefined ? names : chosenOf('guard', words(values.guards), names),
        extras: chosenOf('component', words(values.with), extras),
      });
  const { output = uninstall ? 'rampart-uninstall.yaml' : 'rampart.yaml' } = values;
  if (output === '-') return void process.stdout.write(text);
  // npm runs scripts at the top of the checkout, and says where it was started.
  const file = resolve(process.env['INIT_CWD'] ?? '.', output);
  writeFileSync(file, text);
  process.stdout.write(`${file}\n`);
}

if (import.meta.main) {
  try {
    manifestCommand(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`manifest: ${messageOf(error)}\n`);
    // parseArgs throws a TypeError.
    const isUsage =
      error instanceof TypeError || (error instanceof RampartError && error.code === errorCodes.INPUT);
    process.exitCode = isUsage ? 2 : 1;
  }
}
