/** A custom kind with most that a definition can say. */

/**
 * The kind whose definition never changes: rules in CEL, lists that are maps and sets, defaults,
 * int-or-string.
 */
export const widgetDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.fuzz.example.com' },
  spec: {
    group: 'fuzz.example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', shortNames: ['wd'], categories: ['all'] },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: {
          status: {},
          scale: {
            specReplicasPath: '.spec.replicas',
            statusReplicasPath: '.status.replicas',
            labelSelectorPath: '.status.selector',
          },
        },
        selectableFields: [{ jsonPath: '.spec.color' }],
        additionalPrinterColumns: [
          { name: 'Replicas', type: 'integer', jsonPath: '.spec.replicas' },
          { name: 'Parts', type: 'string', jsonPath: '.spec.parts[*].name' },
          { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            required: ['spec'],
            properties: {
              spec: {
                type: 'object',
                required: ['replicas'],
                'x-kubernetes-validations': [
                  { rule: 'self.replicas <= self.max', message: 'more than max' },
                  {
                    rule: '!has(self.parts) || self.parts.all(p, p.size > 0 || p.name.startsWith("z"))',
                    messageExpression: 'self.parts.size() == 1 ? "the size of the part" : "sizes of parts"',
                  },
                  { rule: '!has(oldSelf.color) || (has(self.color) && self.color == oldSelf.color)' },
                ],
                properties: {
                  replicas: { type: 'integer', format: 'int32', minimum: 0 },
                  max: { type: 'integer', default: 10 },
                  color: { type: 'string', enum: ['red', 'green', 'blue'] },
                  when: { type: 'string', format: 'date-time' },
                  port: { 'x-kubernetes-int-or-string': true },
                  ratio: { type: 'number', multipleOf: 0.5 },
                  maybe: { type: 'string', nullable: true, maxLength: 20, pattern: '^[a-z]*$' },
                  tags: {
                    type: 'array',
                    maxItems: 10,
                    items: { type: 'string', maxLength: 30 },
                    'x-kubernetes-list-type': 'set',
                  },
                  parts: {
                    type: 'array',
                    maxItems: 10,
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['name', 'side'],
                    items: {
                      type: 'object',
                      required: ['name'],
                      properties: {
                        name: { type: 'string', maxLength: 30 },
                        side: { type: 'string', default: 'left' },
                        size: { type: 'integer', default: 1 },
                      },
                    },
                  },
                  options: { type: 'object', additionalProperties: { type: 'string' }, maxProperties: 5 },
                  free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
                  template: {
                    type: 'object',
                    'x-kubernetes-embedded-resource': true,
                    'x-kubernetes-preserve-unknown-fields': true,
                  },
                },
              },
              status: {
                type: 'object',
                properties: {
                  replicas: { type: 'integer' },
                  selector: { type: 'string' },
                  conditions: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['type'],
                    items: {
                      type: 'object',
                      required: ['type', 'status'],
                      properties: { type: { type: 'string' }, status: { type: 'string' } },
                    },
                  },
                },
              },
            },
          },
        },
      },
    ],
  },
};
