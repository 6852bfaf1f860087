use super::*;
use crate::journal::{Form, Target};
use proptest::prelude::*;

const BOOT: &str = "b";
const EMPTY_REST: usize = 40;

fn change(path: &str, before: &str) -> Change {
    Change {
        target: Target::File {
            path: path.into(),
            directory_inode: 7,
        },
        form: Form::Text,
        before: before.to_owned(),
        ours: vec!["512".to_owned()],
    }
}

/// File with these records, and the end of each record.
fn file(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
    let mut ends = Vec::new();
    let write = |file_bytes: u64, ends: &mut Vec<usize>| {
        let boot = BOOT.to_owned();
        let mut bytes = encode(&Record::Begin { boot, file_bytes }).unwrap();
        for record in records {
            bytes.extend(encode(record).unwrap());
            ends.push(bytes.len());
        }
        bytes.resize(bytes.len() + EMPTY_REST, 0);
        bytes
    };
    // The size in the first record has the same number of digits in the second round.
    let about = write(999, &mut Vec::new()).len() as u64;
    assert!((100..=999).contains(&about), "{about}");
    (write(about, &mut ends), ends)
}

fn five() -> Vec<Record> {
    let one = |i: u64| Record::Change(i, change(&format!("/sys/fs/cgroup/{i}/cpu.shares"), "1024"));
    (1..=5).map(one).collect()
}

fn intact(contents: &Contents) -> bool {
    contents
        .changes
        .iter()
        .all(|(id, found)| *found == change(&format!("/sys/fs/cgroup/{id}/cpu.shares"), "1024"))
}

/// Promise 65.
#[test]
fn a_cut_journal_reports_the_rest_and_the_cut() {
    let (bytes, ends) = file(&five());
    for end in 0..bytes.len() {
        let contents = decode(&bytes[..end], BOOT);
        let whole = ends.iter().filter(|of| end >= **of).count();
        assert_eq!(contents.changes.len(), whole, "cut to {end} bytes");
        assert!(intact(&contents) && contents.cut, "cut to {end} bytes");
        assert_eq!(contents.unreadable, 0, "cut to {end} bytes");
    }
    let contents = decode(&bytes, BOOT);
    assert!(contents.changes.len() == 5 && !contents.is_damaged());
}

/// The state after a kill in the middle of a write: the rest is empty.
/// Promise 65.
#[test]
fn a_last_record_written_in_part_does_not_count() {
    let (bytes, ends) = file(&five());
    for end in ends[3]..ends[4] {
        let mut torn = bytes.clone();
        torn[end..].fill(0);
        let contents = decode(&torn, BOOT);
        assert_eq!(
            (contents.changes.len(), contents.is_damaged()),
            (4, false),
            "{end}"
        );
    }
}

/// Promise 65.
#[test]
fn a_bit_that_flips_costs_one_record_and_is_noticed() {
    let (bytes, _) = file(&five());
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let contents = decode(&flipped, BOOT);
        assert!(intact(&contents) && !contents.other_boot, "bit {bit}");
        let left = contents.changes.len();
        assert!(
            left == 5 || (left == 4 && contents.is_damaged()),
            "bit {bit}: {left}"
        );
    }
}

/// Promise 65.
#[test]
fn a_hole_costs_the_records_in_it() {
    let (mut bytes, ends) = file(&five());
    bytes[ends[1]..ends[2]].fill(0);
    let contents = decode(&bytes, BOOT);
    assert_eq!((contents.changes.len(), contents.unreadable), (4, 1));
}

#[test]
fn another_boot_and_no_journal() {
    let (bytes, _) = file(&five());
    let contents = decode(&bytes, "later");
    assert!(contents.other_boot && contents.changes.is_empty() && !contents.is_damaged());
    let contents = decode(b"\xff{]\nno\n", BOOT);
    assert_eq!((contents.changes.len(), contents.unreadable), (0, 2));
    assert!(decode(b"", BOOT).cut, "an empty file is none of ours");
}

/// The record of an end is lost, and the target is changed once more: the value before the first
/// change no longer counts.
#[test]
fn the_later_of_two_changes_of_a_target_counts() {
    let records = [
        Record::Change(1, change("/a", "1")),
        Record::Change(2, change("/a", "2")),
    ];
    let mut bytes = encode(&Record::Begin {
        boot: BOOT.to_owned(),
        file_bytes: 0,
    })
    .unwrap();
    records
        .iter()
        .for_each(|r| bytes.extend(encode(r).unwrap()));
    let contents = decode(&bytes, BOOT);
    let left: Vec<(u64, &str)> = contents
        .changes
        .iter()
        .map(|(id, c)| (*id, c.before.as_str()))
        .collect();
    assert_eq!(left, [(2, "2")]);
}

fn history() -> impl Strategy<Value = Vec<Record>> {
    let id = 1u64..12;
    let value = "[ -~]{0,12}\n?";
    let record = prop_oneof![
        (id.clone(), value).prop_map(|(id, v)| Record::Change(id, change(&format!("/{id}"), &v))),
        (id.clone(), value).prop_map(|(id, v)| Record::Ours(id, v)),
        (id.clone(), value).prop_map(|(id, v)| Record::Before(id, v)),
        id.prop_map(Record::Done),
    ];
    proptest::collection::vec(record, 0..40)
}

proptest! {
    /// Records that do not touch the damage are read as they were written.
    /// Promise 65.
    #[test]
    fn records_outside_of_the_damage_are_read(
        history in history(),
        (at, noise) in (0usize..4_000, proptest::collection::vec(any::<u8>(), 0..60)),
    ) {
        let begin = encode(&Record::Begin { boot: BOOT.to_owned(), file_bytes: 0 }).unwrap();
        let encoded: Vec<Vec<u8>> = history.iter().map(|r| encode(r).unwrap()).collect();
        let mut bytes = begin.clone();
        encoded.iter().for_each(|text| bytes.extend(text));
        let at = at % bytes.len();
        let end = (at + noise.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&noise[..end - at]);
        // Content known from the undamaged records alone.
        let mut model = Contents::default();
        let mut from = begin.len();
        let mut touched = at < from && end > 0;
        for (record, text) in history.into_iter().zip(encoded) {
            let to = from + text.len();
            // Damage up to a record's end may hide the next one's beginning.
            let apart = end < from || at >= to;
            touched |= !apart;
            if apart {
                model.take(record);
            }
            from = to;
        }
        let contents = decode(&bytes, BOOT);
        if !touched {
            prop_assert_eq!(contents.changes, model.changes);
        } else {
            // Never more changes than were written.
            prop_assert!(contents.changes.len() <= 12);
        }
    }

    /// Promise 65.
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let contents = decode(&bytes, BOOT);
        prop_assert!(contents.changes.is_empty());
    }
}
