//! Two cases beside each other: instructions per request by unit and by function.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Formatter, Result};

use super::areas;
use super::costs::{Costs, Spot};
use super::units::Units;

/// Rows below this many instructions per request, in both cases and between them, are added up.
const SMALL: f64 = 100.0;
/// Callers that are asked for the unit of a function that has none itself.
const MOST_CALLERS: usize = 16;

/// Instructions per request: the first case's, and the second's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pair([f64; 2]);

/// One row of a table.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    own: Pair,
    /// With all that is called, whatever it belongs to. A callee that calls the unit again counts twice.
    inclusive: Pair,
}

/// Tables of two cases.
pub(crate) struct Ledger {
    /// By the functions alone, as areas call each other in circles.
    areas: BTreeMap<&'static str, Pair>,
    units: BTreeMap<String, Row>,
    functions: BTreeMap<(String, String), Row>,
}

impl Ledger {
    pub(crate) fn new(units: &Units, first: &Costs, second: &Costs, requests: u32) -> Self {
        let cases = [first, second];
        let owners = Owners::new(units, cases);
        let mut ledger = Ledger { areas: BTreeMap::new(), units: BTreeMap::new(), functions: BTreeMap::new() };
        for (index, costs) in cases.into_iter().enumerate() {
            let per_request = |cost: u64| cost as f64 / f64::from(requests);
            for (spot, own) in &costs.own {
                let unit = owners.of(spot);
                ledger.areas.entry(areas::of(&unit)).or_default().add(index, per_request(*own));
                ledger.units.entry(unit.clone()).or_default().own.add(index, per_request(*own));
                ledger.units.entry(unit.clone()).or_default().inclusive.add(index, per_request(*own));
                let function = ledger.functions.entry((unit, name(units, spot))).or_default();
                function.own.add(index, per_request(*own));
                function.inclusive.add(index, per_request(*own));
            }
            for ((caller, callee), cost) in costs.calls.iter().filter(|((caller, callee), _)| caller != callee) {
                let unit = owners.of(caller);
                let function = ledger.functions.entry((unit.clone(), name(units, caller))).or_default();
                function.inclusive.add(index, per_request(*cost));
                if owners.of(callee) != unit {
                    ledger.units.entry(unit).or_default().inclusive.add(index, per_request(*cost));
                }
            }
        }
        ledger
    }
}

fn name(units: &Units, spot: &Spot) -> String {
    match spot {
        Spot::Inside(function) => units.function(*function),
        Spot::Outside(_, function) => function.clone(),
    }
}

/// The units of the functions that were executed.
struct Owners<'a> {
    units: &'a Units,
    /// The caller of each function that has most of its cost.
    callers: HashMap<&'a Spot, (&'a Spot, u64)>,
}

impl<'a> Owners<'a> {
    fn new(units: &'a Units, cases: [&'a Costs; 2]) -> Self {
        let mut edges: BTreeMap<(&Spot, &Spot), u64> = BTreeMap::new();
        for ((caller, callee), cost) in cases.iter().flat_map(|costs| &costs.calls).filter(|((a, b), _)| a != b) {
            *edges.entry((callee, caller)).or_default() += cost;
        }
        let mut callers: HashMap<&Spot, (&Spot, u64)> = HashMap::new();
        for ((callee, caller), cost) in edges {
            let most = callers.entry(callee).or_insert((caller, cost));
            if cost > most.1 {
                *most = (caller, cost);
            }
        }
        Owners { units, callers }
    }

    /// The unit of a function; of its callers if it has none.
    fn of(&self, spot: &Spot) -> String {
        let mut spot = spot;
        for depth in 0..MOST_CALLERS {
            let unit = match spot {
                Spot::Outside(object, _) => Some(object.clone()),
                Spot::Inside(function) => self.units.unit(*function),
            };
            match (unit, self.callers.get(spot)) {
                (Some(unit), _) if depth == 0 => return unit,
                (Some(unit), _) => return format!("called from {unit}"),
                (None, Some((caller, _))) => spot = caller,
                (None, None) => break,
            }
        }
        "unknown".to_owned()
    }
}

impl Pair {
    fn add(&mut self, index: usize, amount: f64) {
        if let Some(sum) = self.0.get_mut(index) {
            *sum += amount;
        }
    }

    fn difference(self) -> f64 {
        let [first, second] = self.0;
        second - first
    }

    fn largest(self) -> f64 {
        self.0.into_iter().fold(0.0, f64::max)
    }

    fn is_small(self) -> bool {
        self.0.iter().all(|amount| *amount < SMALL) && self.difference().abs() < SMALL
    }
}

impl Display for Pair {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let [first, second] = self.0;
        write!(out, "{first:.0} | {second:.0} | {:+.0}", self.difference())
    }
}

impl Display for Ledger {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let mut areas: Vec<_> = self.areas.iter().collect();
        areas.sort_by(|(_, a), (_, b)| b.largest().total_cmp(&a.largest()));
        writeln!(out, "| area | first | second | difference |\n|---|---|---|---|")?;
        for (area, own) in areas {
            writeln!(out, "| {area} | {own} |")?;
        }
        let heading = "itself, first | second | difference | with what it calls, first | second | difference |";
        writeln!(out, "\n| unit | {heading}\n|---|---|---|---|---|---|---|")?;
        rows(out, self.units.iter().map(|(unit, row)| (unit.clone(), *row)).collect())?;
        writeln!(out, "\n| function | {heading}\n|---|---|---|---|---|---|---|")?;
        let named = self.functions.iter().map(|((unit, name), row)| (format!("{name} ({unit})"), *row));
        rows(out, named.collect())
    }
}

/// The dearest first, by themselves.
fn rows(out: &mut Formatter<'_>, mut rows: Vec<(String, Row)>) -> Result {
    rows.sort_by(|(_, a), (_, b)| b.own.largest().total_cmp(&a.own.largest()));
    let (mut rest, mut all) = (Pair::default(), Pair::default());
    for (name, row) in rows {
        for (index, amount) in row.own.0.into_iter().enumerate() {
            all.add(index, amount);
            if row.own.is_small() {
                rest.add(index, amount);
            }
        }
        if !row.own.is_small() {
            writeln!(out, "| {name} | {} | {} |", row.own, row.inclusive)?;
        }
    }
    writeln!(out, "| others, each below {SMALL:.0} | {rest} | |\n| all | {all} | |")
}

#[cfg(test)]
mod tests {
    use super::super::costs::{Costs, Spot};
    use super::super::executable::Executable;
    use super::super::units::Units;
    use super::Ledger;

    #[test]
    fn costs_of_callees_are_told_from_a_units_own() {
        let units = Units::new(&Executable::default());
        let of = |name: &str| Spot::Outside(format!("{name}.so"), name.to_owned());
        let unknown = Spot::Inside(0x1000);
        let case = |own: u64| Costs {
            own: [(of("a"), own), (of("b"), 400_000), (unknown.clone(), 300_000)].into(),
            calls: [((of("a"), of("b")), 700_000), ((of("b"), unknown.clone()), 300_000)].into(),
        };
        let table = Ledger::new(&units, &case(200_000), &case(900_000), 1_000).to_string();
        for row in [
            "| a.so | 200 | 900 | +700 | 900 | 1600 | +700 |",
            "| b.so | 400 | 400 | +0 | 700 | 700 | +0 |",
            "| called from b.so | 300 | 300 | +0 | 300 | 300 | +0 |",
            "| a (a.so) | 200 | 900 | +700 | 900 | 1600 | +700 |",
            "| others | 900 | 1600 | +700 |",
            "| all | 900 | 1600 | +700 | |",
        ] {
            assert!(table.contains(row), "{row} in {table}");
        }
    }
}
