//! A comparison of two values of a type, as far as their serialisation tells.
//!
//! JSON says less than serde is told: `None`, `Some(None)`, `Some(())` and a number that is none are
//! all `null`. So two texts that are equal prove nothing, and a type need not be `PartialEq`. This
//! serialiser hashes what it is told, and keeps all of these apart.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher as _, RandomState};

use serde::de::value::Error;
use serde::ser::{self, Serialize, Serializer};

/// Whether the serialisation of two values says the same. Elements of a sequence count in any
/// order, as do entries of a map: a set has one of its own each time. No order is lost in JSON.
///
/// # Errors
///
/// The error of a value that cannot be serialised.
pub(super) fn are_same<T: Serialize>(one: &T, other: &T) -> Result<bool, Error> {
    let keys = RandomState::new();
    Ok(hash_of(&keys, one)? == hash_of(&keys, other)?)
}

fn hash_of<T: Serialize + ?Sized>(keys: &RandomState, value: &T) -> Result<u64, Error> {
    let mut hashing = Hashing::new(keys);
    value.serialize(&mut hashing)?;
    Ok(hashing.hasher.finish())
}

/// The kinds that serde's data model tells apart and a hash of the content alone would not.
#[derive(Hash)]
enum Kind {
    Bool,
    Signed,
    Unsigned,
    F32,
    F64,
    Char,
    Str,
    Bytes,
    None,
    Some,
    Unit,
    Variant,
    Unordered,
    Ordered,
}

/// One value that is being hashed.
struct Hashing<'k> {
    keys: &'k RandomState,
    hasher: DefaultHasher,
}

impl<'k> Hashing<'k> {
    fn new(keys: &'k RandomState) -> Self {
        Self { keys, hasher: keys.build_hasher() }
    }

    fn add(&mut self, kind: Kind, content: impl Hash) -> Result<(), Error> {
        (kind, content).hash(&mut self.hasher);
        Ok(())
    }

    fn parts(&mut self) -> Parts<'_, 'k> {
        Parts { whole: self, entry: None, sum: 0, entries: 0 }
    }
}

/// Whole numbers of any width: one may come back as that of another.
macro_rules! widened {
    ($($verb:ident($number:ty)),+) => {$(
        fn $verb(self, value: $number) -> Result<(), Error> {
            self.serialize_i128(value.into())
        }
    )+};
}

impl<'a, 'k> Serializer for &'a mut Hashing<'k> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Parts<'a, 'k>;
    type SerializeTuple = Parts<'a, 'k>;
    type SerializeTupleStruct = Parts<'a, 'k>;
    type SerializeTupleVariant = Parts<'a, 'k>;
    type SerializeMap = Parts<'a, 'k>;
    type SerializeStruct = Parts<'a, 'k>;
    type SerializeStructVariant = Parts<'a, 'k>;

    widened!(serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64));
    widened!(serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64));

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.add(Kind::Bool, value)
    }

    fn serialize_i128(self, value: i128) -> Result<(), Error> {
        // A number that is not negative comes back unsigned where its type has no width of its own.
        match u128::try_from(value) {
            Ok(value) => self.serialize_u128(value),
            Err(_) => self.add(Kind::Signed, value),
        }
    }

    fn serialize_u128(self, value: u128) -> Result<(), Error> {
        self.add(Kind::Unsigned, value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.add(Kind::F32, value.to_bits())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.add(Kind::F64, value.to_bits())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.add(Kind::Char, value)
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.add(Kind::Str, value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.add(Kind::Bytes, value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.add(Kind::None, ())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.add(Kind::Some, ())?;
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.add(Kind::Unit, ())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.add(Kind::Variant, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.add(Kind::Variant, variant)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a, 'k>, Error> {
        Ok(self.parts())
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'a, 'k>, Error> {
        Ok(self.parts())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a, 'k>, Error> {
        Ok(self.parts())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a, 'k>, Error> {
        self.add(Kind::Variant, variant)?;
        Ok(self.parts())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'a, 'k>, Error> {
        Ok(self.parts())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'a, 'k>, Error> {
        Ok(self.parts())
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        fields: usize,
    ) -> Result<Parts<'a, 'k>, Error> {
        self.serialize_tuple_variant(name, index, variant, fields)
    }
}

/// A value of several parts. Those without an order are hashed one by one and added up.
struct Parts<'a, 'k> {
    whole: &'a mut Hashing<'k>,
    /// Has its key.
    entry: Option<Hashing<'k>>,
    sum: u64,
    entries: u64,
}

impl Parts<'_, '_> {
    /// A part in its place.
    fn next<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.entries += 1;
        value.serialize(&mut *self.whole)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        name.hash(&mut self.whole.hasher);
        self.next(value)
    }

    /// A part whose place does not matter.
    fn one_of(&mut self, part: &Hashing<'_>) {
        self.entries += 1;
        self.sum = self.sum.wrapping_add(part.hasher.finish());
    }

    fn in_order(self) -> Result<(), Error> {
        self.whole.add(Kind::Ordered, self.entries)
    }

    fn in_any_order(self) -> Result<(), Error> {
        self.whole.add(Kind::Unordered, (self.entries, self.sum))
    }
}

impl ser::SerializeSeq for Parts<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let mut part = Hashing::new(self.whole.keys);
        value.serialize(&mut part)?;
        self.one_of(&part);
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.in_any_order()
    }
}

impl ser::SerializeMap for Parts<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let mut entry = Hashing::new(self.whole.keys);
        key.serialize(&mut entry)?;
        self.entry = Some(entry);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let mut entry = self.entry.take().unwrap_or_else(|| Hashing::new(self.whole.keys));
        value.serialize(&mut entry)?;
        self.one_of(&entry);
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.in_any_order()
    }
}

/// Traits of serde that differ in nothing but the name of their verb.
macro_rules! in_order {
    ($($name:ident::$verb:ident),+) => {$(
        impl ser::$name for Parts<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $verb<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.next(value)
            }

            fn end(self) -> Result<(), Error> {
                self.in_order()
            }
        }
    )+};
}

/// As above, of parts that have names.
macro_rules! by_name {
    ($($name:ident),+) => {$(
        impl ser::$name for Parts<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.in_order()
            }
        }
    )+};
}

in_order!(
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);
by_name!(SerializeStruct, SerializeStructVariant);

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use super::*;

    #[test]
    fn what_json_has_one_word_for_is_told_apart() {
        let values = [None, Some(None), Some(Some(f64::NAN)), Some(Some(0.0)), Some(Some(-0.0))];
        for (at, one) in values.iter().enumerate() {
            for (other_at, other) in values.iter().enumerate() {
                assert_eq!(are_same(one, other), Ok(at == other_at), "{one:?} and {other:?}");
            }
        }
        assert_eq!(are_same(&Some(()), &None), Ok(false));
    }

    #[test]
    fn an_order_that_is_made_anew_each_time_is_none() {
        let words: Vec<_> = (0..64).map(|word| word.to_string()).collect();
        let set = || words.iter().cloned().collect::<HashSet<_>>();
        assert_eq!(are_same(&set(), &set()), Ok(true));
        let map = || words.iter().cloned().zip(1..).collect::<HashMap<_, u8>>();
        assert_eq!(are_same(&map(), &map()), Ok(true));
        let mut other = map();
        other.insert("0".to_owned(), 0);
        assert_eq!(are_same(&map(), &other), Ok(false));
    }

    #[test]
    fn parts_belong_to_their_places_and_to_their_wholes() {
        assert_eq!(are_same(&(1, 2), &(2, 1)), Ok(false));
        assert_eq!(are_same(&[vec![1], vec![2, 3]], &[vec![1, 2], vec![3]]), Ok(false));
        let map = |pairs: [(&str, u8); 2]| BTreeMap::from(pairs.map(|(k, v)| (k.to_owned(), v)));
        assert_eq!(are_same(&map([("a", 1), ("b", 2)]), &map([("a", 2), ("b", 1)])), Ok(false));
    }
}
