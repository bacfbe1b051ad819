//! Virtual functions and their classes, by what `dynamic_cast` needs of them at run time (Itanium C++ ABI, "Virtual Table
//! Layout" and "RTTI Layout").

use std::collections::{BTreeSet, HashMap};

use super::executable::Executable;

/// A place in the tables of the class that defines a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Virtual {
    /// The class's name as the compiler writes it.
    pub(crate) class: String,
    /// The place in the table of virtual functions, from 0.
    pub(crate) slot: usize,
    /// The place of the base in the class whose table it is: 0 for the first.
    pub(crate) base: i64,
    /// How many classes without a common base have the same function, because the linker keeps one copy of equal code.
    pub(crate) sharers: usize,
}

/// The prefix of the names of the types that describe types.
const DESCRIPTIONS: &str = "N10__cxxabiv1";
/// A base lies within its class: no table is of another place.
const LARGEST_CLASS: i64 = 1 << 24;

struct Owner {
    class: u64,
    slot: usize,
    base: i64,
}

/// The virtual functions of an executable, by address.
pub(crate) fn functions(executable: &Executable) -> HashMap<u64, Virtual> {
    let classes = classes(executable);
    let mut owners: HashMap<u64, Vec<Owner>> = HashMap::new();
    for (place, class) in &executable.pointers {
        if let Some(base) = classes.contains_key(class).then(|| table(executable, *place)).flatten() {
            let slots = (place + 8..).step_by(8).map_while(|slot| executable.pointers.get(&slot).copied());
            for (slot, function) in slots.take_while(|target| executable.is_code(*target)).enumerate() {
                owners.entry(function).or_default().push(Owner { class: *class, slot, base });
            }
        }
    }
    owners.into_iter().filter_map(|(function, owners)| Some((function, defined(&classes, &owners)?))).collect()
}

/// Names of classes, and their bases, by the addresses of their descriptions.
fn classes(executable: &Executable) -> HashMap<u64, (String, Vec<u64>)> {
    let is_described = |class: u64| {
        let kind = executable.pointers.get(&class)?.checked_sub(8)?;
        let name = executable.pointers.get(&(executable.pointers.get(&kind)? + 8))?;
        executable.text(*name).filter(|name| name.starts_with(DESCRIPTIONS))
    };
    let candidates = executable.pointers.keys().filter_map(|class| {
        let name = is_described(*class).and_then(|_| executable.text(*executable.pointers.get(&(class + 8))?))?;
        Some((*class, name.to_owned()))
    });
    let names: HashMap<u64, String> = candidates.collect();
    let bases = |class: u64| -> Vec<u64> {
        let pointer = |place| executable.pointers.get(&place).filter(|base| names.contains_key(base)).copied();
        match pointer(class + 16) {
            Some(base) => vec![base],
            // Flags and a count, then each base with flags of its own.
            None => {
                let count = executable.word(class + 16).unwrap_or_default() >> 32;
                (0..count.clamp(0, 64)).map_while(|index| pointer(class + 24 + 16 * index.cast_unsigned())).collect()
            }
        }
    };
    names.iter().map(|(class, name)| (*class, (name.clone(), bases(*class)))).collect()
}

/// The place of a table's base in its class, if there is a table whose second word, the class, is at `place`.
fn table(executable: &Executable, place: u64) -> Option<i64> {
    let before = place.checked_sub(8)?;
    let distance = executable.word(before).filter(|_| !executable.pointers.contains_key(&before))?;
    (-LARGEST_CLASS..=0).contains(&distance).then_some(-distance)
}

/// The class that defines a function: the one of its owners that has none of the others as a base.
fn defined(classes: &HashMap<u64, (String, Vec<u64>)>, owners: &[Owner]) -> Option<Virtual> {
    let all: BTreeSet<u64> = owners.iter().map(|owner| owner.class).collect();
    let roots: Vec<&Owner> = owners.iter().filter(|owner| !inherits(classes, owner.class, &all, 0)).collect();
    let first =
        roots.iter().min_by_key(|owner| (classes.get(&owner.class).map(|(name, _)| name.as_str()), owner.base))?;
    let sharers = roots.iter().map(|owner| owner.class).collect::<BTreeSet<u64>>().len();
    let (class, _) = classes.get(&first.class)?;
    Some(Virtual { class: class.clone(), slot: first.slot, base: first.base, sharers })
}

fn inherits(classes: &HashMap<u64, (String, Vec<u64>)>, class: u64, from: &BTreeSet<u64>, depth: u32) -> bool {
    let bases = classes.get(&class).map(|(_, bases)| bases.as_slice()).unwrap_or_default();
    depth < 32 && bases.iter().any(|base| from.contains(base) || inherits(classes, *base, from, depth + 1))
}

#[cfg(test)]
mod tests {
    use super::super::executable::{Executable, Section};
    use super::functions;

    /// Two classes, `Base` with two functions and `Derived`, which replaces the second and adds a third.
    fn two_classes() -> Executable {
        let texts = b"N10__cxxabiv117__class_type_infoE\0N5Envoy4BaseE\0N5Envoy7DerivedE\0";
        let words = |count: usize| vec![0; count * 8];
        let section = |name: &str, address, bytes, is_code| Section { name: name.to_owned(), address, bytes, is_code };
        let sections = vec![
            section(".rodata", 0x1000, texts.to_vec(), false),
            section(".text", 0x2000, vec![0x90; 0x100], true),
            section(".data.rel.ro", 0x3000, words(64), false),
        ];
        let pointers = [
            // The description of descriptions, and the word before their functions, which leads to it.
            (0x3008, 0x1000),
            (0x3018, 0x3000),
            // Base and Derived.
            (0x3040, 0x3020),
            (0x3048, 0x1022),
            (0x3060, 0x3020),
            (0x3068, 0x1030),
            (0x3070, 0x3040),
            // Their tables.
            (0x3088, 0x3040),
            (0x3090, 0x2000),
            (0x3098, 0x2010),
            (0x30b8, 0x3060),
            (0x30c0, 0x2000),
            (0x30c8, 0x2020),
            (0x30d0, 0x2030),
        ];
        Executable { sections, pointers: pointers.into(), ..Executable::default() }
    }

    #[test]
    fn function_belongs_to_the_class_that_defines_it() {
        let functions = functions(&two_classes());
        let of = |address| functions.get(&address).map(|found| (found.class.as_str(), found.slot, found.sharers));
        assert_eq!(of(0x2000), Some(("N5Envoy4BaseE", 0, 1)));
        assert_eq!(of(0x2010), Some(("N5Envoy4BaseE", 1, 1)));
        assert_eq!(of(0x2020), Some(("N5Envoy7DerivedE", 1, 1)));
        assert_eq!(of(0x2030), Some(("N5Envoy7DerivedE", 2, 1)));
        assert_eq!(functions.len(), 4);
    }

    #[test]
    fn equal_code_of_two_classes_is_told() {
        let mut executable = two_classes();
        executable.pointers.remove(&0x3070);
        assert_eq!(functions(&executable).get(&0x2000).map(|found| found.sharers), Some(2));
    }
}
