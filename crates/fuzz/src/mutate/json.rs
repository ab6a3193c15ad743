//! Changes to JSON: any value in it becomes another, goes, or comes twice.

use fastrand::Rng;
use serde_json::{Number, Value};

/// Changes one value, or bytes.
pub fn json(input: &mut Vec<u8>, random: &mut Rng) {
    let parsed = serde_json::from_slice::<Value>(input);
    let (Ok(mut value), true) = (parsed, random.u8(..6) != 0) else {
        return super::text(input, random);
    };
    let mut other = value.clone();
    let taken = part(&mut other, random).clone();
    change(part(&mut value, random), taken, random);
    if let Ok(text) = serde_json::to_vec(&value) {
        *input = text;
    }
}

/// A value anywhere in `value`: deep ones are as likely as shallow ones.
fn part<'v>(value: &'v mut Value, random: &mut Rng) -> &'v mut Value {
    let inner = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if inner == 0 || random.u8(..8) == 0 {
        return value;
    }
    let chosen = random.usize(..inner);
    let inner = match value {
        Value::Array(items) => items.get_mut(chosen),
        Value::Object(fields) => fields.values_mut().nth(chosen),
        _ => None,
    };
    part(inner.expect("there are so many"), random)
}

fn change(value: &mut Value, taken: Value, random: &mut Rng) {
    *value = match (std::mem::take(value), random.u8(..6)) {
        (Value::Object(mut fields), 0 | 1) => {
            let chosen = fields.keys().nth(random.usize(..fields.len().max(1))).cloned();
            chosen.map(|key| fields.remove(&key));
            Value::Object(fields)
        }
        (Value::Array(mut items), 0) => {
            items.truncate(random.usize(..=items.len()));
            Value::Array(items)
        }
        (Value::Array(mut items), 1) => {
            items.push(taken);
            Value::Array(items)
        }
        (_, 2) => taken,
        (_, 3) => Value::String(random.choice(super::TEXTS).unwrap_or_default().to_owned()),
        (_, 4) => {
            let float = random.choice([0.5, -1.0, 1e308, 1e-300, 1e19]).unwrap_or(0.5);
            Number::from_f64(float).map_or(Value::Null, Value::Number)
        }
        (old, 5) => Value::Array(vec![old; random.usize(..4)]),
        _ => match random.u8(..4) {
            0 => Value::Null,
            1 => Value::Bool(random.bool()),
            2 => Value::from(super::number(random) as u64),
            _ => Value::from(super::number(random)),
        },
    };
}
