/** The panel behind a guard's card: its picture, details of the chosen part, and a table with the same content. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { DrawnItem, DrawnPicture } from '../apps/ui/report.ts';
import { CopiedCommand } from './copied-command.tsx';
import { Drawing, keyOf } from './drawing.tsx';
import { chainsLayout } from './layout/chains.ts';
import { gridLayout } from './layout/grid.ts';
import { lanesLayout } from './layout/lanes.ts';
import type { Layout } from './layout/layout.ts';
import { treeLayout } from './layout/tree.ts';
import { clock, counted, shown } from './text.ts';
import { usePicture } from './use-picture.ts';

const layouts: Readonly<Record<DrawnPicture['form'], (picture: DrawnPicture, width: number) => Layout>> = {
  chains: chainsLayout,
  grid: gridLayout,
  lanes: lanesLayout,
  tree: treeLayout,
};

export const pictureId = 'picture';

interface GuardPictureProps {
  readonly guard: string;
  readonly close: () => void;
}

export function GuardPicture({ guard, close }: GuardPictureProps) {
  const { picture, failure } = usePicture(guard);
  const section = useRef<HTMLElement>(null);
  const exists = picture !== undefined;
  // On a phone it is below all cards.
  useEffect(() => {
    if (exists) section.current?.scrollIntoView({ block: 'nearest' });
  }, [guard, exists]);
  return (
    <section ref={section} class="card picture" id={pictureId} aria-labelledby="picture-title">
      <div class="head">
        <h2 id="picture-title">{picture?.title ?? shown(guard)}</h2>
        {picture !== undefined && <span class="tag">{shown(guard)}</span>}
        <span class="right">
          <button type="button" onClick={close}>
            Close
          </button>
        </span>
      </div>
      {failure !== '' && (
        <p class="end" role="alert">
          {shown(`The picture cannot be read now: ${failure}`)}
        </p>
      )}
      {picture === undefined ? (
        failure === '' && <p class="end dim">Reading …</p>
      ) : (
        <Shown key={guard} picture={picture} />
      )}
    </section>
  );
}

function Shown({ picture }: { readonly picture: DrawnPicture }) {
  const { form, title, items, legend, notes } = picture;
  const [chosen, setChosen] = useState('');
  const [place, width] = useWidth();
  const selected = items.find((item) => keyOf(item) === chosen);
  return (
    <>
      <div class="scroll canvas" ref={place} tabIndex={-1}>
        {items.length > 0 && width > 0 && (
          <Drawing
            layout={layouts[form](picture, width)}
            title={title}
            selected={selected}
            select={(item) => setChosen(keyOf(item))}
          />
        )}
      </div>
      {items.length > 0 && (
        <>
          <ul class={`legend ${form}`}>
            {legend.map(({ tone, words }) => (
              <li key={tone}>
                <span class={`swatch ${tone}`} aria-hidden="true" />
                {words}
              </li>
            ))}
          </ul>
          <div class="chosen" role="status">
            {selected === undefined ? (
              <p class="dim">
                Choose a part of the picture to see all of it. Arrow keys lead from one to the next.
              </p>
            ) : (
              <Chosen item={selected} />
            )}
          </div>
        </>
      )}
      {notes.length > 0 && (
        <ul class="notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      {items.length > 0 && <AsTable picture={picture} />}
    </>
  );
}

function Chosen({ item: { text, timeMs, command } }: { readonly item: DrawnItem }) {
  return (
    <>
      <p>
        {timeMs !== undefined && <span class="dim">about {clock(timeMs)} </span>}
        {text}
      </p>
      {command !== null && <CopiedCommand command={command} node="" />}
    </>
  );
}

/** For those who do not see the picture, and for those who search in it. */
function AsTable({ picture: { items, axes, unit, title } }: { readonly picture: DrawnPicture }) {
  const [isOpen, setOpen] = useState(false);
  const hasTimes = items.some(({ timeMs }) => timeMs !== undefined);
  return (
    <details class="as-table" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>As a table of {counted(items.length, 'row')}</summary>
      {isOpen && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
          <table>
            <thead>
              <tr>
                {axes.map((axis) => (
                  <th scope="col" key={axis}>
                    {axis}
                  </th>
                ))}
                {hasTimes && <th scope="col">about</th>}
                <th scope="col">{unit}</th>
                <th scope="col">what</th>
                <th scope="col">command</th>
              </tr>
            </thead>
            <tbody>
              {items.map((item) => (
                <tr key={keyOf(item)}>
                  {namesOf(item, axes.length).map((name, at) => (
                    <td key={axes[at]} class="mono">
                      {name}
                    </td>
                  ))}
                  {hasTimes && <td>{clock(item.timeMs ?? 0)}</td>}
                  <td>{item.value.toLocaleString('en')}</td>
                  <td>{item.text}</td>
                  <td class="mono">{item.command?.line}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

/** The names of an item, one per axis; with a single axis its parts are joined into a path. */
function namesOf({ at }: DrawnItem, axes: number): string[] {
  if (axes !== 1) return at.slice(0, axes);
  return [at.join('/').replace(/^\/\//, '/')];
}

/** The width of an element's content, in CSS pixels; 0 before it is known. */
function useWidth() {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [place, width] as const;
}
