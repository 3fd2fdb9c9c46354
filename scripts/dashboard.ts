/**
 * The dashboard for Grafana: what is asked for first, and below it, folded, each metric of each guard and process. A metric that is
 * registered appears by itself.
 */
import type { Guard } from '../guard/guard.ts';
import { guardMetrics, type ListedMetric, processMetrics } from './metric-list.ts';

interface Target {
  readonly expr: string;
  readonly legend: string;
}

interface Panel {
  readonly title: string;
  readonly description?: string;
  readonly type: 'stat' | 'table' | 'timeseries';
  readonly targets: readonly Target[];
  /** Unit of Grafana: `bytes`, `s`, `cps`. */
  readonly unit?: string;
}

interface Row {
  readonly title: string;
  readonly isFolded: boolean;
  readonly panels: readonly Panel[];
}

const COLUMNS = 24;
const PANEL = { w: 8, h: 7 };
const ROW_HEIGHT = 1;
const node = 'node=~"$node"';
const datasource = { type: 'prometheus', uid: '${datasource}' };

/** https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/ */
export async function dashboard(guards: readonly Guard[]): Promise<object> {
  return {
    uid: 'rampart',
    title: 'Rampart',
    tags: ['rampart'],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: '1m',
    time: { from: 'now-6h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
        {
          ...{ name: 'node', label: 'Node', type: 'query', datasource, refresh: 2, sort: 1 },
          ...{ query: 'label_values(rampart_agent_ready, node)', multi: true, includeAll: true },
          // This also matches if no series has the label.
          ...{ allValue: '.*', current: { text: ['All'], value: ['$__all'] } },
        },
      ],
    },
    panels: placed(await rowsOf(guards)),
  };
}

async function rowsOf(guards: readonly Guard[]): Promise<readonly Row[]> {
  const ofGuards = await Promise.all(
    guards.map(async (guard) => {
      const { agent, operator } = await guardMetrics(guard);
      const panels = [
        ...agent.flatMap((one) => panelsOf(one, node)),
        ...operator.flatMap((one) => panelsOf(one)),
      ];
      return { title: guard.name, isFolded: true, panels };
    }),
  );
  const seen = new Set<string>();
  const unseen = ({ name }: ListedMetric): boolean => !seen.has(name) && seen.add(name) !== undefined;
  const ofProcesses = (['agent', 'operator', 'apiserver', 'policy-server'] as const).map((process) => ({
    title: process === 'agent' ? 'agent, and all processes' : process,
    isFolded: true,
    panels: processMetrics(process)
      .filter(unseen)
      .flatMap((one) => panelsOf(one)),
  }));
  return [overview, ...ofGuards, ...ofProcesses].filter(({ panels }) => panels.length > 0);
}

const overview: Row = {
  title: 'Overview',
  isFolded: false,
  panels: [
    {
      title: 'Agents',
      description: 'Those that answer, and those that are ready.',
      type: 'stat',
      targets: [
        { expr: `sum(up{job=~"rampart-(agent|standalone)",${node}})`, legend: 'up' },
        { expr: `sum(rampart_agent_ready{${node}})`, legend: 'ready' },
      ],
    },
    {
      title: 'Guards that do not run',
      type: 'stat',
      targets: [
        { expr: `count by (guard) (rampart_guard_running{${node}} == 0) or vector(0)`, legend: '{{guard}}' },
      ],
    },
    {
      title: 'Alerts',
      type: 'table',
      targets: [
        {
          expr: 'ALERTS{alertname=~"Rampart.*|NodeHasIntegrityFailure",alertstate="firing"}',
          legend: '{{alertname}}',
        },
      ],
    },
    {
      title: 'Findings',
      type: 'timeseries',
      unit: 'cps',
      targets: [
        {
          expr: `sum by (guard, severity) (rate(rampart_findings_total{${node}}[$__rate_interval]))`,
          legend: '{{guard}} {{severity}}',
        },
      ],
    },
    {
      title: 'CPU',
      type: 'timeseries',
      unit: 'percentunit',
      targets: [
        {
          expr: `rate(process_cpu_seconds_total{job=~"rampart-.*|policy-server"}[$__rate_interval])`,
          legend: '{{job}} {{node}}',
        },
      ],
    },
    {
      title: 'Memory',
      type: 'timeseries',
      unit: 'bytes',
      targets: [
        {
          expr: `process_resident_memory_bytes{job=~"rampart-.*|policy-server"}`,
          legend: '{{job}} {{node}}',
        },
      ],
    },
  ],
};

/** @param selector - In each selection of series; '' for all of them. */
function panelsOf({ name, type, help, labelNames = [] }: ListedMetric, selector = ''): Panel[] {
  if (name.endsWith('_info')) return [];
  const labels = ['node', ...labelNames];
  const by = `by (${labels.join(', ')})`;
  const legend = labels.map((label) => `{{${label}}}`).join(' ');
  const selected = `${name}${selector && `{${selector}}`}`;
  const panel = { title: help.replace(/\.$/, ''), description: name, type: 'timeseries' } as const;
  const one = (expr: string, unit: string): Panel[] => [{ ...panel, unit, targets: [{ expr, legend }] }];
  if (type === 'counter') {
    // One that is constant, for what there is.
    if (name === 'kubewarden_policy_total')
      return one(`sum by (policy_server, policy_status) (${name})`, 'short');
    return one(
      `sum ${by} (rate(${selected}[$__rate_interval]))`,
      name.endsWith('_bytes_total') ? 'Bps' : 'cps',
    );
  }
  if (type === 'histogram') {
    const buckets = `${name}_bucket${selector && `{${selector}}`}`;
    const sum = `sum by (${['le', ...labelNames.slice(0, 1)].join(', ')}) (rate(${buckets}[$__rate_interval]))`;
    return [
      {
        ...panel,
        unit: name.endsWith('_milliseconds') ? 'ms' : 's',
        targets: [0.5, 0.99].map((share) => ({
          expr: `histogram_quantile(${share}, ${sum})`,
          legend: [`${share * 100} %`, ...labelNames.slice(0, 1).map((label) => `{{${label}}}`)].join(' '),
        })),
      },
    ];
  }
  if (name.endsWith('_timestamp_seconds') || name.endsWith('_start_time_seconds')) {
    return one(`time() - max ${by} (${selected})`, 's').map((made) => ({
      ...made,
      title: `${panel.title}: how long ago`,
    }));
  }
  return one(
    `sum ${by} (${selected})`,
    name.endsWith('_bytes') ? 'bytes' : name.endsWith('_seconds') ? 's' : 'short',
  );
}

/** As Grafana has them: folded rows hold their panels, and all have a place and an ID. */
function placed(rows: readonly Row[]): object[] {
  let id = 0;
  let y = 0;
  return rows.flatMap(({ title, isFolded, panels }) => {
    const row = {
      ...{ id: ++id, type: 'row', title, collapsed: isFolded },
      gridPos: { x: 0, y, w: COLUMNS, h: ROW_HEIGHT },
    };
    y += ROW_HEIGHT;
    const perLine = COLUMNS / PANEL.w;
    const made = panels.map((panel, at) =>
      panelJson(++id, panel, {
        ...{ x: (at % perLine) * PANEL.w, y: y + Math.floor(at / perLine) * PANEL.h },
        ...PANEL,
      }),
    );
    if (isFolded) return [{ ...row, panels: made }];
    y += Math.ceil(panels.length / perLine) * PANEL.h;
    return [{ ...row, panels: [] }, ...made];
  });
}

function panelJson(id: number, { title, description, type, unit, targets }: Panel, gridPos: object): object {
  return {
    ...{ id, type, title, ...(description !== undefined && { description }), datasource, gridPos },
    fieldConfig: { defaults: unit === undefined ? {} : { unit }, overrides: [] },
    targets: targets.map(({ expr, legend }, at) => ({
      ...{ refId: String.fromCharCode(65 + at), datasource, expr, legendFormat: legend },
      ...(type !== 'timeseries' && { instant: true }),
      ...(type === 'table' && { format: 'table' }),
    })),
  };
}
