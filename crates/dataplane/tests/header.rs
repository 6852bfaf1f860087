//! The C header is generated from the Rust code. The test generates it again and compares.

use std::fmt::Write;
use std::path::Path;
use syn::{Attribute, Expr, FnArg, GenericArgument, Item, Lit, Meta, PathArguments};
use syn::{ItemFn, ItemStruct, ReturnType, Type, TypeBareFn, Visibility};

/// Sources in the order of the header.
const SOURCES: [&str; 3] = ["src/c/address.rs", "src/c.rs", "src/c/calls.rs"];
const HEADER: &str = "include/cofferdam_dataplane.h";
const HEAD: &str = "/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcofferdam_dataplane: an application on Cofferdam's dataplane.
 *
 * Generated from crates/dataplane/src/c.rs; do not edit. docs/src/dataplane/applications.md has a
 * guide, crates/dataplane/examples/echo.c an example. Names of connections, addresses and kept data
 * are never 0.
 */
/* clang-format off */
#ifndef COFFERDAM_DATAPLANE_H
#define COFFERDAM_DATAPLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Version of the interface: cofferdam_attach fails if the dataplane has another. */
#define COFFERDAM_DATAPLANE_VERSION VERSION

#ifdef __cplusplus
extern \"C\" {
#endif

struct cofferdam_session;
";
const FOOT: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// Documentation as a C comment, without the part for Rust's callers.
fn comment(attributes: &[Attribute], indent: &str) -> String {
    let mut lines = Vec::new();
    for attribute in attributes {
        if let Meta::NameValue(pair) = &attribute.meta
            && pair.path.is_ident("doc")
            && let Expr::Lit(text) = &pair.value
            && let Lit::Str(text) = &text.lit
        {
            lines.push(text.value().trim().to_owned());
        }
    }
    let safety = lines.iter().position(|line| line == "# Safety");
    let own = &lines[..safety.unwrap_or(lines.len())];
    let mut out = String::new();
    let text: Vec<&str> = own.iter().map(String::as_str).collect();
    let text = text
        .join("\n")
        .trim()
        .replace('\n', &format!("\n{indent} * "));
    writeln!(out, "{indent}/* {text} */").expect("a String takes all");
    out
}

/// Declaration of `name` with C's name of a Rust type.
fn declare(ty: &Type, name: &str) -> String {
    match ty {
        Type::Ptr(pointer) => {
            let constant = if pointer.const_token.is_some() {
                "const "
            } else {
                ""
            };
            format!("{constant}{}", declare(&pointer.elem, &format!("*{name}")))
        }
        Type::Array(array) => {
            let Expr::Lit(len) = &array.len else {
                panic!("an array's length is a number")
            };
            let Lit::Int(len) = &len.lit else {
                panic!("an array's length is a number")
            };
            declare(&array.elem, &format!("{name}[{}]", len.base10_digits()))
        }
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a type has a name");
            let word = last.ident.to_string();
            if word == "Option" {
                let PathArguments::AngleBracketed(of) = &last.arguments else {
                    panic!("Option of what?")
                };
                let Some(GenericArgument::Type(Type::BareFn(f))) = of.args.first() else {
                    panic!("only functions may be absent")
                };
                return pointer_to(f, name);
            }
            let c = match word.as_str() {
                "u8" => "uint8_t",
                "u16" => "uint16_t",
                "u32" => "uint32_t",
                "u64" => "uint64_t",
                "i32" => "int32_t",
                "usize" => "size_t",
                "bool" => "bool",
                "c_char" => "char",
                "c_void" => "void",
                own if own.starts_with("cofferdam_") => &format!("struct {own}"),
                other => panic!("C has no name for {other}"),
            };
            format!("{c} {name}").trim_end().to_owned()
        }
        _ => panic!("a type that C cannot have"),
    }
}

fn pointer_to(f: &TypeBareFn, name: &str) -> String {
    let arguments: Vec<String> = f
        .inputs
        .iter()
        .map(|a| {
            declare(
                &a.ty,
                &a.name.as_ref().expect("arguments have names").0.to_string(),
            )
        })
        .collect();
    let own = format!("(*{name})({})", arguments.join(", "));
    returned(&f.output, &own)
}

fn returned(output: &ReturnType, rest: &str) -> String {
    match output {
        ReturnType::Default => format!("void {rest}"),
        ReturnType::Type(_, ty) => declare(ty, rest),
    }
}

/// A declaration in lines of at most 100 columns, broken between arguments.
fn wrapped(declaration: &str, indent: &str) -> String {
    const TAB: usize = 8;
    let columns = |line: &str| line.len() + line.matches('\t').count() * (TAB - 1);
    let mut lines = vec![indent.to_owned()];
    for (n, part) in format!("{declaration};").split(", ").enumerate() {
        let line = lines.last_mut().expect("there is a line");
        let separator = if n == 0 { "" } else { ", " };
        if n > 0 && columns(line) + separator.len() + part.len() + 1 > 100 {
            line.push(',');
            lines.push(format!("{indent}\t{part}"));
        } else {
            line.push_str(separator);
            line.push_str(part);
        }
    }
    lines.join("\n") + "\n"
}

fn structure(item: &ItemStruct) -> String {
    let mut out = format!("\n{}struct {} {{\n", comment(&item.attrs, ""), item.ident);
    for field in &item.fields {
        let name = field.ident.as_ref().expect("fields have names").to_string();
        out += &comment(&field.attrs, "\t");
        out += &wrapped(&declare(&field.ty, &name), "\t");
    }
    out + "};\n"
}

fn function(item: &ItemFn) -> String {
    let arguments: Vec<String> = item
        .sig
        .inputs
        .iter()
        .map(|argument| {
            let FnArg::Typed(argument) = argument else {
                panic!("no self in C")
            };
            let syn::Pat::Ident(name) = &*argument.pat else {
                panic!("arguments have names")
            };
            declare(&argument.ty, &name.ident.to_string())
        })
        .collect();
    let arguments = match arguments.is_empty() {
        true => "void".to_owned(),
        false => arguments.join(", "),
    };
    let own = format!("{}({arguments})", item.sig.ident);
    let declaration = wrapped(&returned(&item.sig.output, &own), "");
    format!("\n{}{declaration}", comment(&item.attrs, ""))
}

fn is_for_c(attributes: &[Attribute], word: &str) -> bool {
    attributes.iter().any(|a| match &a.meta {
        Meta::List(list) => list.path.is_ident(word) || list.tokens.to_string().contains(word),
        _ => false,
    })
}

fn header() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let version = cofferdam_dataplane::INTERFACE_VERSION.to_string();
    let mut out = HEAD.replace("_VERSION VERSION", &format!("_VERSION {version}"));
    for source in SOURCES {
        let text = std::fs::read_to_string(root.join(source)).expect("the source is there");
        for item in syn::parse_file(&text).expect("it is Rust").items {
            match item {
                Item::Struct(s) if is_for_c(&s.attrs, "repr") => out += &structure(&s),
                Item::Fn(f) if is_for_c(&f.attrs, "no_mangle") => {
                    assert!(matches!(f.vis, Visibility::Public(_)), "{}", f.sig.ident);
                    out += &function(&f);
                }
                _ => {}
            }
        }
    }
    out + FOOT
}

/// Promise 55.
#[test]
fn the_header_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(HEADER);
    let generated = header();
    if std::env::var_os("COFFERDAM_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).expect("the header can be written");
    }
    let header = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        header == generated,
        "{HEADER} is out of date: run \
         COFFERDAM_WRITE_HEADER=1 cargo test -p cofferdam-dataplane --test header"
    );
}
