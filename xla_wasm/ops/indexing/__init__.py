"""Operations at indices that are known at run time; views at constant ones are in `movement/`."""
