"""Code shared by several verbs: conversion, bisection, partitions, ORT format, locks, profiling, races."""
