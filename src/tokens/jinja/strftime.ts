const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

/** Python's `strftime` in the C locale and local time. Throws SyntaxError for a directive that is not known here. */
export function strftime(date: Date, format: string): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const day = DAYS[date.getDay()] ?? "";
  const month = MONTHS[date.getMonth()] ?? "";
  const parts: Readonly<Record<string, string>> = {
    "%Y": String(date.getFullYear()),
    "%y": two(date.getFullYear() % 100),
    "%m": two(date.getMonth() + 1),
    "%d": two(date.getDate()),
    "%b": month.slice(0, 3),
    "%B": month,
    "%a": day.slice(0, 3),
    "%A": day,
    "%H": two(date.getHours()),
    "%I": two(date.getHours() % 12 || 12),
    "%p": date.getHours() < 12 ? "AM" : "PM",
    "%M": two(date.getMinutes()),
    "%S": two(date.getSeconds()),
    "%-d": String(date.getDate()),
    "%-m": String(date.getMonth() + 1),
    "%%": "%",
  };
  return format.replace(/%-?./gs, (directive) => {
    const part = parts[directive];
    if (part === undefined) throw new SyntaxError(`strftime of ${directive} is not known here`);
    return part;
  });
}
