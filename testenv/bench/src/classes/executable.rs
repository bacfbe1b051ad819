//! Functions of an executable without symbols: their bounds, the pointers that lead to them, and the few names that it exports.

use std::collections::HashMap;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind};

use crate::error::ExecutableError;

/// An executable. Addresses are those of the file, without where a process has it in memory.
#[derive(Debug, Default)]
pub(crate) struct Executable {
    pub(super) sections: Vec<Section>,
    /// Targets of the pointers that the loader writes, by the addresses of these.
    pub(super) pointers: HashMap<u64, u64>,
    /// First and last address and one, in order.
    pub(super) functions: Vec<(u64, u64)>,
    /// Addresses of exported functions.
    pub(super) exported: HashMap<String, u64>,
    /// Parts that are loaded: where they begin in the file, their lengths there, and their addresses.
    pub(super) loaded: Vec<(u64, u64, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) is_code: bool,
}

impl Executable {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, ExecutableError> {
        let bytes = std::fs::read(path)?;
        let file = object::File::parse(bytes.as_slice())?;
        let mut executable = Executable::default();
        for section in file.sections().filter(|section| section.address() != 0) {
            executable.sections.push(Section {
                name: section.name()?.to_owned(),
                address: section.address(),
                bytes: section.data()?.to_vec(),
                is_code: section.kind() == SectionKind::Text,
            });
        }
        executable.loaded = file
            .segments()
            .map(|segment| (segment.file_range(), segment.address()))
            .map(|((offset, length), address)| (offset, length, address))
            .collect();
        for (place, relocation) in file.dynamic_relocations().into_iter().flatten() {
            // R_X86_64_RELATIVE: an address within the file.
            if relocation.flags() == (object::RelocationFlags::Elf { r_type: object::elf::R_X86_64_RELATIVE }) {
                executable.pointers.insert(place, relocation.addend().cast_unsigned());
            }
        }
        for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
            executable.exported.insert(symbol.name()?.to_owned(), symbol.address());
        }
        executable.functions = executable.table().ok_or(ExecutableError::Functions)?;
        Ok(executable)
    }

    /// The address of a place in the file.
    pub(crate) fn at_offset(&self, place: u64) -> Option<u64> {
        self.loaded.iter().find_map(|(offset, length, address)| {
            let within = place.checked_sub(*offset).filter(|within| within < length)?;
            Some(address + within)
        })
    }

    /// The function that an address is in, by its first address. Between functions: the end of the one before.
    pub(crate) fn function(&self, address: u64) -> u64 {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        match after.checked_sub(1).and_then(|before| self.functions.get(before)) {
            Some((start, end)) if address < *end => *start,
            Some((_, end)) => *end,
            None => 0,
        }
    }

    /// The text at an address outside of code, up to its end.
    pub(crate) fn text(&self, address: u64) -> Option<&str> {
        let section = self.section(address).filter(|section| !section.is_code)?;
        let rest = section.at(address)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }

    /// The number at an address.
    pub(crate) fn word(&self, address: u64) -> Option<i64> {
        let bytes = self.section(address)?.at(address)?.first_chunk::<8>()?;
        Some(i64::from_le_bytes(*bytes))
    }

    /// Whether an address is within code.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        self.section(address).is_some_and(|section| section.is_code)
    }

    /// The first and the last address and one of the section of this name.
    pub(crate) fn code(&self, name: &str) -> Option<(u64, u64)> {
        let section = self.sections.iter().find(|section| section.name == name)?;
        Some((section.address, section.address + section.bytes.len() as u64))
    }

    /// Targets of the instructions `lea` that take an address within the file, by their own addresses. Code is not taken apart: what
    /// looks like one may be the middle of another instruction, and leads to nothing that is a text of ours then.
    pub(crate) fn addresses_taken(&self) -> impl Iterator<Item = (u64, u64)> {
        self.sections.iter().filter(|section| section.is_code).flat_map(|section| {
            let windows = section.bytes.windows(7).zip(section.address..);
            windows.filter_map(|(bytes, place)| {
                // REX.W, `lea`, and a register with an address relative to the next instruction.
                let [0x48 | 0x4c, 0x8d, operands, distance @ ..] = bytes else { return None };
                let distance = i32::from_le_bytes(*distance.first_chunk::<4>()?);
                let next = place + 7;
                (operands & 0b1100_0111 == 0b0000_0101).then(|| (place, next.wrapping_add_signed(distance.into())))
            })
        })
    }

    fn section(&self, address: u64) -> Option<&Section> {
        self.sections.iter().find(|section| section.at(address).is_some())
    }

    /// Reads the search table of .eh_frame_hdr, and lengths from .eh_frame (Linux Standard Base, "Exception Frames").
    fn table(&self) -> Option<Vec<(u64, u64)>> {
        let header = self.sections.iter().find(|section| section.name == ".eh_frame_hdr")?;
        // Version 1; the count as four bytes; the table as pairs of four bytes relative to this section.
        let [1, _, 0x03, 0x3b, ..] = header.bytes.as_slice() else { return None };
        let count = number(header.bytes.get(8..)?)?.cast_unsigned();
        let pairs = header.bytes.get(12..)?.chunks_exact(8).take(count as usize);
        let functions: Option<Vec<(u64, u64)>> = pairs.map(|pair| self.described(header.address, pair)).collect();
        functions.filter(|functions| functions.is_sorted())
    }

    fn described(&self, header: u64, pair: &[u8]) -> Option<(u64, u64)> {
        let start = header.wrapping_add_signed(number(pair)?.into());
        let entry = header.wrapping_add_signed(number(pair.get(4..)?)?.into());
        // Length of the entry, what it has in common with others, first address, length of the function.
        let length = number(self.section(entry)?.at(entry)?.get(12..)?)?.cast_unsigned();
        Some((start, start + u64::from(length)))
    }
}

impl Section {
    fn at(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(offset..).filter(|rest| !rest.is_empty())
    }
}

fn number(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use object::Object;

    use super::Executable;

    #[test]
    fn functions_of_this_program_are_found() {
        let path = std::env::current_exe().unwrap();
        let executable = Executable::read(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let entry = object::File::parse(bytes.as_slice()).unwrap().entry();
        assert!(executable.is_code(entry));
        assert_eq!(executable.function(entry), entry);
        assert_eq!(executable.function(entry + 1), entry);
        assert!(executable.functions.len() > 1_000);
        assert!(executable.pointers.values().any(|target| executable.is_code(*target)));
        // With its end, as texts of C++ have it: what follows one of Rust's may be no text.
        let own = std::hint::black_box(c"a text whose address is taken").to_str().unwrap();
        let mut texts = executable.addresses_taken().filter_map(|(_, target)| executable.text(target));
        assert!(texts.any(|text| text == own));
    }
}
