// The settings that the user has really made. VS Code gives every setting a value, its default where nobody chose
// one; sent to the server those would hide what the user's and the project's own files say.

export interface Inspected {
  globalValue?: unknown;
  workspaceValue?: unknown;
  workspaceFolderValue?: unknown;
}

/** Names of settings in a section, from the manifest's properties. */
export function namesIn(section: string, properties: Record<string, unknown>): string[] {
  const start = `${section}.`;
  const names = Object.keys(properties).filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
  return names.filter((name) => !name.includes('.')); // those with a point are the extension's own
}

export function chosen(names: string[], inspect: (name: string) => Inspected | undefined): Record<string, unknown> {
  const settings: Record<string, unknown> = {};
  for (const name of names) {
    const found = inspect(name);
    const value = found?.workspaceFolderValue ?? found?.workspaceValue ?? found?.globalValue;
    if (value !== undefined && value !== null) {
      settings[name] = value;
    }
  }
  return settings;
}
