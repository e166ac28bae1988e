// undo.mjs - what was made and has to be unmade: last made, first unmade.
const undoing = [];
let undone;

export function defer(action) {
    undoing.push(action);
}

// For what ended by itself.
export function forget(action) {
    const at = undoing.lastIndexOf(action);
    if (at >= 0)
        undoing.splice(at, 1);
}

async function undoInOrder() {
    while (undoing.length > 0) {
        try {
            await undoing.pop()();
        } catch (error) {
            console.error(`bench-peers: cleaning up: ${error.message}`);
        }
    }
}

export const isUndoing = () => undone !== undefined;

export function undo() {
    undone ??= undoInOrder();
    return undone;
}
