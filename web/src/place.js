// Where we are: #/view/part?filter=value. Every view, selection and filter is an address that can be shared.
import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

// A typed address may contain no valid escape: then it is taken literally.
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const place = computed(() => {
  const [path, query = ""] = hash.value.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decode);
  return { view: parts[0] || "fleet", parts: parts.slice(1), filters: Object.fromEntries(new URLSearchParams(query)) };
});

export function address(view, parts = [], filters = {}) {
  const kept = Object.entries(filters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  return `#/${[view, ...parts].map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

export function setFilter(name, value) {
  const { view, parts, filters } = place.value;
  location.replace(address(view, parts, { ...filters, [name]: value }));
}
