// blocks.mjs - the code blocks of a document, and what becomes of them.
//
//     ```sh          commands; each has to succeed
//     ```console     "$ COMMAND" (continued by "> "), then what it prints: "..." in a line stands for any text, a line of its own
//                    for any lines
//     other          shown, not run; must not hold commands of ours, and not be a shell by another name (bash, shell, ...)
//
// <!-- not run: REASON --> above a block leaves it out, visibly.
const FENCE = /^(\s*)```(\S*)\s*$/;
const NOT_RUN = /^\s*<!-- not run: (.+) -->\s*$/;
const COMMAND = /^\s*(\$ |tidemark (?!<)|make [a-z]|curl |sqlite3 |systemctl |apt |docker |psql |createdb )/;

const OTHER_SHELL = /^(bash|dash|fish|shell|shell-session|shellsession|zsh)$/;

export function blocksOf(text) {
    const blocks = [];
    let open = null;
    let reason = null;
    for (const [index, line] of text.split('\n').entries()) {
        const fence = FENCE.exec(line);
        if (open) {
            if (fence && fence[2] === '') {
                blocks.push(open);
                open = null;
            } else {
                open.lines.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line.trimStart());
            }
        } else if (fence) {
            open = { line: index + 1, indent: fence[1], language: fence[2], reason, lines: [] };
        }
        if (NOT_RUN.test(line)) reason = NOT_RUN.exec(line)[1];
        else if (line.trim() !== '') reason = null;
    }
    if (open) throw new Error(`line ${open.line}: the block does not end`);
    return blocks;
}

export const isShell = (block) => block.language === 'sh' || block.language === 'console';

// A block that looks like commands and says of itself that it is none.
export function hiddenCommand(block) {
    if (isShell(block) || block.language === 'python') return undefined;
    return block.lines.find((line) => OTHER_SHELL.test(block.language) || COMMAND.test(line));
}

// The commands of a block with what they should print; expected is null where nothing is said.
export function unitsOf(block) {
    if (block.language === 'sh') return [{ line: block.line + 1, command: block.lines.join('\n'), expected: null }];
    const units = [];
    for (const [index, line] of block.lines.entries()) {
        if (line.startsWith('$ ')) {
            units.push({ line: block.line + 1 + index, command: line.slice(2), expected: [] });
        } else if (units.length === 0) {
            throw new Error(`line ${block.line + 1 + index}: a console block begins with "$ "`);
        } else if (line.startsWith('> ') && units.at(-1).expected.length === 0) {
            units.at(-1).command += `\n${line.slice(2)}`;
        } else {
            units.at(-1).expected.push(line);
        }
    }
    return units;
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

// undefined when what was printed is what is expected, else the expected lines and the printed ones.
export function difference(expected, printed) {
    const wanted = expected.map((line) => line.trimEnd());
    while (wanted.at(-1) === '') wanted.pop();
    const pattern = wanted.map((line) => (line === '...' ? '(?:.*\\n)*?' : `${line.split('...').map(escaped).join('.*')}\\n`)).join('');
    const lines = printed.split('\n').map((line) => line.trimEnd());
    while (lines.at(-1) === '') lines.pop();
    const text = lines.map((line) => `${line}\n`).join('');
    if (new RegExp(`^${pattern}$`).test(text)) return undefined;
    return `expected:\n${wanted.join('\n')}\nprinted:\n${lines.join('\n')}`;
}
