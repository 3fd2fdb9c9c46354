/**
 * The schema of Config, with which bpfman-operator v0.6 installs bpfman. Rampart serves the kind, and reports in its status that it has no
 * effect.
 */
import { boolean, integer, list, object, optional, string } from '../../lib/kube/crd/schema.ts';
import { status } from './group.ts';

const image = { image: string('The image.', { minLength: 1 }), logLevel: optional(string('The log level.')) };
const override = object({
  kind: string('The kind.'),
  apiVersion: string('Its API version.'),
  namespace: string('Its namespace.'),
  name: string('Its name.'),
  unmanaged: boolean('Whether to leave it alone.'),
});

export const configFields = {
  spec: object(
    {
      agent: object('The agent of bpfman.', {
        ...image,
        healthProbePort: integer('The port for probes.', { minimum: 1, maximum: 65_535, default: 8175 }),
      }),
      daemon: object('The daemon of bpfman.', {
        ...image,
        csiRegistrarImage: optional(string('The image of its CSI registrar.')),
      }),
      configuration: string('The content of bpfman.toml.', { minLength: 1 }),
      namespace: optional(string('The namespace of bpfman.')),
      overrides: optional(
        list(override, {
          description: 'What its operator leaves alone.',
          mapKeys: ['kind', 'apiVersion', 'namespace', 'name'],
        }),
      ),
    },
    { description: 'How bpfman-operator installs bpfman. Rampart does not use it.' },
  ),
  status,
};
