// What the server's didChangeStatus looks like in the status bar. Nothing of VS Code in here.

export interface State {
  busy: boolean;
  message: string;
  kind: 'Normal' | 'Error' | 'Warning' | 'Inactive';
  command?: { title: string; command: string; arguments?: unknown[] };
}

export interface Shown {
  text: string;
  tooltip: string;
  severity: 'none' | 'warning' | 'error';
}

const ICONS = { Normal: 'zap', Error: 'error', Warning: 'warning', Inactive: 'circle-slash' };
const WORDS = { Normal: 'ready', Error: 'failed', Warning: 'waiting', Inactive: 'off' };

export function shown(state: State): Shown {
  const icon = state.busy ? 'loading~spin' : ICONS[state.kind] ?? ICONS.Normal;
  const severity = state.kind === 'Error' ? 'error' : state.kind === 'Warning' ? 'warning' : 'none';
  return { text: `$(${icon}) Tokenleap`, tooltip: `Tokenleap: ${state.message || WORDS[state.kind]}`, severity };
}
