// As much of VS Code as the extension and vscode-languageclient need to run in plain node. What is not made here is
// an event nobody raises or a class that does nothing. `install` puts it in the place of the module `vscode`.

import Module from 'node:module';
import { pathToFileURL } from 'node:url';

type Listener = (event: unknown) => unknown;

export class Disposable {
  constructor(private readonly end: () => void = () => undefined) {}
  dispose(): void {
    this.end();
  }
  static from(...all: { dispose(): void }[]): Disposable {
    return new Disposable(() => all.forEach((one) => one.dispose()));
  }
}

export class EventEmitter {
  private readonly listeners = new Set<Listener>();
  readonly event = (listener: Listener, self?: unknown): Disposable => {
    const bound = self ? listener.bind(self) : listener;
    this.listeners.add(bound);
    return new Disposable(() => this.listeners.delete(bound));
  };
  fire(event: unknown): void {
    [...this.listeners].forEach((listener) => listener(event));
  }
  dispose(): void {
    this.listeners.clear();
  }
}

export class CancellationTokenSource {
  private readonly emitter = new EventEmitter();
  readonly token = { isCancellationRequested: false, onCancellationRequested: this.emitter.event };
  cancel(): void {
    this.token.isCancellationRequested = true;
    this.emitter.fire(undefined);
  }
  dispose(): void {
    this.emitter.dispose();
  }
}

export class Uri {
  private constructor(private readonly url: URL) {}
  static parse(text: string): Uri {
    return new Uri(new URL(text));
  }
  static file(path: string): Uri {
    return new Uri(pathToFileURL(path));
  }
  get scheme(): string {
    return this.url.protocol.slice(0, -1);
  }
  get fsPath(): string {
    return this.url.pathname;
  }
  toString(): string {
    return this.url.href;
  }
}

export class Position {
  constructor(readonly line: number, readonly character: number) {}
}

export class Range {
  readonly start: Position;
  readonly end: Position;
  constructor(...at: [Position, Position] | [number, number, number, number]) {
    [this.start, this.end] =
      at.length === 2 ? at : [new Position(at[0], at[1]), new Position(at[2], at[3])];
  }
}

export class InlineCompletionItem {
  filterText?: string;
  constructor(readonly insertText: string, readonly range?: Range, readonly command?: unknown) {}
}

export class InlineCompletionList {
  constructor(readonly items: InlineCompletionItem[]) {}
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

/** What the extension did to its editor, and what a test may do. */
export class Desk {
  readonly commands = new Map<string, (...args: unknown[]) => unknown>();
  readonly providers: { provideInlineCompletionItems(...args: unknown[]): Promise<unknown> }[] = [];
  readonly item: Record<string, unknown> = { show: () => undefined, hide: () => undefined, dispose: () => undefined };
  readonly picked: { label: string; run(): unknown }[][] = [];
  readonly opened: { content: string }[] = [];
  readonly messages: string[] = [];
  readonly configurationChanged = new EventEmitter();
  pick = '';
  settings: Record<string, { defaultValue?: unknown; globalValue?: unknown; workspaceValue?: unknown }> = {};
  documents: unknown[] = [];

  /** A document, as VS Code would give it to a provider. */
  document(uri: string, languageId: string, text: string): Record<string, unknown> {
    return { uri: Uri.parse(uri), languageId, version: 1, getText: () => text, isClosed: false, notebook: undefined };
  }

  install(): void {
    const loader = Module as unknown as { _load(name: string, ...rest: unknown[]): unknown };
    const load = loader._load;
    const made = this.module();
    loader._load = (name, ...rest) => (name === 'vscode' ? made : load.call(loader, name, ...rest));
  }

  private module(): unknown {
    const said = (message: string) => {
      this.messages.push(message);
      return Promise.resolve(undefined);
    };
    const section = () => ({
      get: (name: string, otherwise: unknown) => {
        const found = this.settings[name];
        return found?.workspaceValue ?? found?.globalValue ?? found?.defaultValue ?? otherwise;
      },
      inspect: (name: string) => this.settings[name],
      has: (name: string) => name in this.settings,
    });
    const window = {
      createStatusBarItem: () => this.item,
      createOutputChannel: () => filled({ appendLine: () => undefined, append: () => undefined, show: () => undefined }),
      showQuickPick: async (items: { label: string; run(): unknown }[]) => {
        this.picked.push(items);
        return items.find((item) => item.label.includes(this.pick));
      },
      showInformationMessage: said,
      showWarningMessage: said,
      showErrorMessage: said,
      showTextDocument: async (document: unknown) => document,
      activeTextEditor: undefined,
      visibleTextEditors: [],
      tabGroups: filled({ all: [] }),
    };
    const workspace = {
      getConfiguration: section,
      onDidChangeConfiguration: this.configurationChanged.event,
      openTextDocument: async (made: { content: string }) => {
        this.opened.push(made);
        return made;
      },
      textDocuments: this.documents,
      notebookDocuments: [],
      workspaceFolders: undefined,
      isTrusted: true,
    };
    const languages = {
      match: () => 10,
      registerInlineCompletionItemProvider: (_: unknown, provider: Desk['providers'][number]) => {
        this.providers.push(provider);
        return new Disposable(() => this.providers.splice(this.providers.indexOf(provider), 1));
      },
      createDiagnosticCollection: () => filled({ dispose: () => undefined }),
    };
    const commands = {
      registerCommand: (name: string, run: (...args: unknown[]) => unknown) => {
        if (this.commands.has(name)) {
          throw new Error(`command '${name}' already exists`);
        }
        this.commands.set(name, run);
        return new Disposable(() => this.commands.delete(name));
      },
      executeCommand: async (name: string, ...args: unknown[]) => this.commands.get(name)?.(...args),
    };
    return filled({
      Disposable,
      EventEmitter,
      CancellationTokenSource,
      Uri,
      Position,
      Range,
      InlineCompletionItem,
      InlineCompletionList,
      ThemeColor,
      StatusBarAlignment: { Left: 1, Right: 2 },
      version: '1.140.0',
      env: filled({ language: 'en', appName: 'a test', clipboard: {} }),
      window: filled(window),
      workspace: filled(workspace),
      languages: filled(languages),
      commands: filled(commands),
    });
  }
}

/** An object whose missing members are events (`onDid...`), classes and functions that do nothing. */
function filled(own: object): unknown {
  const made = new Map<PropertyKey, unknown>();
  return new Proxy(own, {
    get(target, name) {
      if (name in target || typeof name === 'symbol' || name === 'then') {
        return Reflect.get(target, name);
      }
      if (!made.has(name)) {
        made.set(name, /^on(Did|Will)/.test(name) ? new EventEmitter().event : nothing());
      }
      return made.get(name);
    },
  });
}

function nothing(): unknown {
  return new Proxy(class Nothing {}, {
    apply: () => new Disposable(),
    get: (target, name) => (name in target ? Reflect.get(target, name) : typeof name === 'string' ? name : undefined),
  });
}
