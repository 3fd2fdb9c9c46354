/** The CustomResourceDefinition of a resource, as an object and as YAML. */
import { stringify } from 'yaml';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { Resource, VersionDefinition } from './resource.ts';
import { type JsonSchema, object } from './schema.ts';

/** The parts of a CustomResourceDefinition (`apiextensions.k8s.io/v1`) that are read here and in tests. */
export interface CrdManifest {
  readonly apiVersion: 'apiextensions.k8s.io/v1';
  readonly kind: 'CustomResourceDefinition';
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly group: string;
    readonly names: Readonly<Record<string, unknown>>;
    readonly scope: string;
    readonly versions: readonly CrdVersion[];
  };
}

export interface CrdVersion {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly schema: { readonly openAPIV3Schema: JsonSchema };
  readonly [more: string]: unknown;
}

const label = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;
const group = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$/;
const kind = /^[A-Z][A-Za-z0-9]*$/;

/**
 * The manifest. The schemas are not checked here: a test checks them against the API server's rules.
 *
 * @throws {RampartError} `INPUT` for names that the API server would refuse, and unless exactly one version
 * is stored.
 */
export function crdManifest(resource: Resource): CrdManifest {
  const { plural, scope, shortNames, singular = resource.kind.toLowerCase() } = resource;
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, { what: `resource ${resource.kind} of ${resource.group}`, why });
  if (!group.test(resource.group)) throw refuse('its group is not a domain');
  if (!kind.test(resource.kind)) throw refuse('its kind is not CamelCase');
  const labels = [plural, singular, ...(shortNames ?? [])];
  for (const name of [...labels, ...Object.keys(resource.versions)]) {
    if (!label.test(name)) throw refuse(`"${name}" is not a DNS label`);
  }
  const names = Object.keys(resource.versions);
  const versions = Object.entries(resource.versions).map(([name, version]) =>
    versionManifest(name, version, version.storage ?? names.length === 1),
  );
  if (versions.filter(({ storage }) => storage).length !== 1)
    throw refuse('exactly one version must be stored');
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${resource.group}` },
    spec: {
      group: resource.group,
      names: {
        kind: resource.kind,
        listKind: `${resource.kind}List`,
        plural,
        singular,
        ...(shortNames && { shortNames }),
      },
      scope,
      versions,
    },
  };
}

function versionManifest(name: string, version: VersionDefinition, storage: boolean): CrdVersion {
  const { fields, description, columns, statusSubresource = 'status' in fields } = version;
  const { json } = object(fields, { ...(description !== undefined && { description }) });
  return {
    name,
    served: true,
    storage,
    ...(columns && { additionalPrinterColumns: columns }),
    ...(statusSubresource && { subresources: { status: {} } }),
    schema: {
      openAPIV3Schema: {
        ...json,
        properties: {
          apiVersion: {
            description: 'The API group and version of this object.',
            type: 'string',
          },
          kind: { description: 'The kind of this object.', type: 'string' },
          metadata: { type: 'object' },
          ...(json['properties'] as object),
        },
      },
    },
  };
}

/** The manifest as a file. `source` is named at its top, as the place to change it. */
export function crdYaml(resource: Resource, source: string): string {
  const text = stringify(crdManifest(resource), {
    lineWidth: 0,
    singleQuote: true,
    aliasDuplicateObjects: false,
    // kubectl reads YAML 1.1, where `on` is a boolean and `1_0` a number.
    compat: 'yaml-1.1',
  });
  return `# Made from ${source} by \`node scripts/manifests.ts --write\`. Change it there.\n${text}`;
}
