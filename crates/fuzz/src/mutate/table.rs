//! Changes to CSV: cells, rows, columns, and the line of the header.

use fastrand::Rng;

/// Changes a cell, a row, a column, or bytes.
pub fn table(input: &mut Vec<u8>, random: &mut Rng) {
    if random.u8(..4) == 0 {
        return super::text(input, random);
    }
    let text = String::from_utf8_lossy(input).into_owned();
    let mut rows: Vec<Vec<String>> = text.split('\n').map(cells).collect();
    let row = random.usize(..rows.len());
    match random.u8(..8) {
        0 => rows.insert(random.usize(..=rows.len()), rows[row].clone()),
        1 => drop(rows.remove(row)),
        2 => {
            // A column twice, and all behind it in another place.
            let column = random.usize(..rows[row].len());
            for row in &mut rows {
                if let Some(cell) = row.get(column).cloned() {
                    row.insert(column, cell);
                }
            }
        }
        3 => {
            let column = random.usize(..rows[row].len());
            rows.iter_mut()
                .filter(|row| column < row.len())
                .for_each(|row| drop(row.remove(column)));
        }
        _ => {
            let column = random.usize(..rows[row].len());
            let (from, at) = (random.usize(..rows.len()), random.usize(..rows[row].len()));
            rows[row][column] = match random.u8(..4) {
                0 => super::number(random).to_string(),
                1 => rows[from][at % rows[from].len()].clone(),
                2 => format!(
                    "\"{}\"",
                    rows[row][column].trim_matches('"').repeat(random.usize(1..20))
                ),
                _ => random.choice(super::TEXTS).unwrap_or_default().to_owned(),
            };
        }
    }
    let rows: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    *input = rows.join("\n").into_bytes();
}

/// The cells of a line; commas in quotes end none.
fn cells(line: &str) -> Vec<String> {
    let mut quoted = false;
    let cells = line.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    cells.map(str::to_owned).collect()
}
